// SPDX-License-Identifier: Apache-2.0
// Several host threads submit to simulated devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>

#include "sim/saboteurs.hpp"
#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/transpose.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::host_threads_tests {
namespace {

using testing::HasSubstr;

// Two threads fill the same memory, each on its own stream.
exploration two_writers(bool have_lock) {
    return explore(
        [=](simulator& machine) {
            device& on = machine.device();
            const tensor<float> x(machine.pool().next(), {16});
            if (have_lock) x.memory()->share_among_writers(std::make_shared<sluice::detail::access_lock>());
            const auto write = [&](float value) {
                const stream_lease stream(on);
                for (int i = 0; i < 3; ++i) set(*stream, x, value);
            };
            machine.run_threads({[&] { write(1); }, [&] { write(2); }});
        },
        {.schedules = 300});
}

TEST(host_threads, never_race_on_storage_with_a_lock) { two_writers(true).require_clean(); }

TEST(host_threads, race_in_some_schedule_on_storage_without_a_lock) {
    const exploration found = two_writers(false);
    ASSERT_FALSE(found.is_clean());
    EXPECT_EQ(found.found->what, fault::race);
}

TEST(host_threads, launch_graphs_that_share_an_inner_graph) {
    constexpr std::size_t n = 4;
    explore(
        [](simulator& machine) {
            device& on = machine.device();
            const auto steps = [](tensor<float> x) {
                return transpose(std::move(x))
                    .and_then([](auto y) { return transpose(std::move(y)); })
                    .and_then([](auto y) { return scale(std::move(y), 2.f); });
            };
            const auto inner = compile(on, steps, device_input<float>({n, n}));
            const auto around = [&] {
                return compile(
                    on, [=](tensor<float> x) { return inner(std::move(x)).and_then(download); },
                    host_input<float>({n, n}));
            };
            const std::array graphs{around(), around()};
            std::array<std::vector<float>, 2> results;
            const auto work = [&](std::size_t which) {
                round_robin pool(on, 2);
                for (int i = 0; i < 2; ++i)
                    results[which] = sync(graphs[which](std::vector<float>(n * n, float(which + 1))), pool);
            };
            machine.run_threads({[&] { work(0); }, [&] { work(1); }});
            EXPECT_EQ(results[0], std::vector<float>(n * n, 2.f));
            EXPECT_EQ(results[1], std::vector<float>(n * n, 4.f));
            return results[0][0] + results[1][0];
        },
        {.schedules = 200})
        .require_clean();
}

TEST(host_threads, share_the_streams_of_one_pool) {
    explore(
        [](simulator& machine) {
            std::array<std::vector<float>, 3> results;
            std::vector<std::function<void()>> threads;
            for (std::size_t t = 0; t < results.size(); ++t) {
                threads.emplace_back([&, t] {
                    auto doubled = upload(std::vector<float>(8, float(t)))
                                       .and_then([](auto x) { return scale(std::move(x), 2.f); })
                                       .and_then(download);
                    results[t] = sync(std::move(doubled), machine.pool());
                });
            }
            machine.run_threads(std::move(threads));
            return results[0][0] + results[1][0] + results[2][0];
        },
        {.schedules = 300})
        .require_clean();
}

TEST(host_threads, rethrow_their_exceptions_from_run_threads) {
    simulator machine;
    bool other_ended = false;
    try {
        machine.run_threads({[] { throw std::runtime_error("of a thread"); }, [&] { other_ended = true; }});
        FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& thrown) {
        EXPECT_THAT(thrown.what(), HasSubstr("of a thread"));
    }
    EXPECT_TRUE(other_ended);
}

}  // namespace
}  // namespace sluice::sim::host_threads_tests
