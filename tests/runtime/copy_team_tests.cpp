// SPDX-License-Identifier: Apache-2.0
// copy_team: threads that copy together.
#include "runtime/copy_team.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

namespace sluice::detail::copy_team_tests {
namespace {

std::vector<std::uint32_t> numbered(std::size_t size, std::uint32_t seed) {
    std::vector<std::uint32_t> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    return made;
}

void expect_copies(copy_team& team, std::uint32_t seed) {
    copy_team::job copying(team);
    for (const auto caches : {copy_team::caches::are_passed, copy_team::caches::are_used}) {
        for (const std::size_t size : {0u, 1u, 65'535u, 65'536u, 65'537u, 1'000'003u}) {
            const auto from = numbered(size, seed);
            std::vector<std::uint32_t> to(size);
            const std::size_t bytes = size * sizeof(std::uint32_t);
            copy_team::piece all(to.data(), {from.data(), bytes, bytes}, 0, bytes, caches);
            copying.add(all);
            copying.finish(all);
            ASSERT_EQ(to, from) << size;
        }
    }
}

TEST(copy_team, copies_pieces_of_every_size) {
    copy_team team(3);
    expect_copies(team, 1);
}

TEST(copy_team, without_helpers_the_thread_copies_alone) {
    copy_team team(0);
    expect_copies(team, 2);
}

TEST(copy_team, pieces_are_finished_in_any_order) {
    copy_team team(2);
    const auto from = numbered(3'000'000, 3);
    std::vector<std::uint32_t> to(from.size());
    std::deque<copy_team::piece> pieces;
    copy_team::job copying(team);
    constexpr std::size_t each_size = 300'000;
    for (std::size_t i = 0; i < from.size(); i += each_size) {
        pieces.emplace_back(to.data() + i, from.data() + i, each_size * sizeof(std::uint32_t));
        copying.add(pieces.back());
    }
    for (const std::size_t i : {5u, 0u, 9u, 1u, 2u, 3u, 4u, 6u, 7u, 8u}) copying.finish(pieces[i]);
    EXPECT_EQ(to, from);
}

TEST(copy_team, several_threads_have_jobs_at_the_same_time) {
    copy_team team(2);
    std::vector<std::thread> threads;
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
        threads.emplace_back([&team, seed] {
            for (std::uint32_t round = 0; round < 5; ++round) expect_copies(team, 100 * seed + round);
        });
    }
    for (std::thread& each : threads) each.join();
}

TEST(copy_team, a_job_that_ends_early_leaves_its_memory_alone) {
    copy_team team(2);
    for (int round = 0; round < 20; ++round) {
        const auto from = numbered(1'000'000, 4);
        std::vector<std::uint32_t> to(from.size());
        copy_team::piece all(to.data(), from.data(), from.size() * sizeof(std::uint32_t));
        copy_team::job copying(team);
        copying.add(all);
    }
}

}  // namespace
}  // namespace sluice::detail::copy_team_tests
