// SPDX-License-Identifier: Apache-2.0
#include "sluice/sim/interleaving.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>

#include "sluice/sim/atomic.hpp"

namespace sluice::sim::interleaving_tests {
namespace {

using testing::HasSubstr;

// Two threads increment a number in two steps each.
scenario lost_update() {
    const auto number = std::make_shared<atomic<int>>(0);
    const auto increment = [number] { number->store(number->load() + 1); };
    return {.threads = {increment, increment}, .finally = [number] { check(*number == 2, "an update was lost"); }};
}

TEST(interleaving, finds_a_lost_update_and_the_seed_reproduces_it) {
    const interleave_result found = interleave(lost_update);
    ASSERT_TRUE(found.failure);
    EXPECT_THAT(found.failure->message, HasSubstr("an update was lost"));
    for (int again = 0; again < 3; ++again) {
        const interleave_result replay = interleave(lost_update, {.schedules = 1, .seed = found.failure->seed});
        ASSERT_TRUE(replay.failure);
        EXPECT_EQ(replay.failure->message, found.failure->message);
        EXPECT_EQ(replay.failure->order, found.failure->order);
    }
}

TEST(interleaving, finds_nothing_in_a_correct_program) {
    const interleave_result result = interleave([]() -> scenario {
        const auto number = std::make_shared<atomic<int>>(0);
        const auto increment = [number] { number->fetch_add(1); };
        return {.threads = {increment, increment, increment},
                .finally = [number] { check(*number == 3, "an update was lost"); }};
    });
    EXPECT_FALSE(result.failure);
    EXPECT_EQ(result.schedules, 10'000u);
}

TEST(interleaving, reaches_every_outcome_that_sequential_consistency_allows_and_no_other) {
    std::set<std::pair<int, int>> outcomes;
    const interleave_result result = interleave(
        [&]() -> scenario {
            struct state {
                atomic<int> x{0}, y{0};
                int read_x = -1, read_y = -1;
            };
            const auto s = std::make_shared<state>();
            return {.threads = {[s] { s->x = 1, s->read_y = s->y; }, [s] { s->y = 1, s->read_x = s->x; }},
                    .finally = [s, &outcomes] { outcomes.emplace(s->read_x, s->read_y); }};
        },
        {.schedules = 1000});
    EXPECT_FALSE(result.failure);
    EXPECT_EQ(outcomes, (std::set<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 1}}));
}

TEST(interleaving, reports_a_deadlock) {
    const interleave_result result = interleave([]() -> scenario {
        const auto woken = std::make_shared<atomic<bool>>(false);
        const auto wait = [woken] { wait_until([&] { return woken->load(); }); };
        return {.threads = {wait, wait, [] { scheduling_point(); }}, .finally = {}};
    });
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.schedules, 1u);
    EXPECT_THAT(result.failure->message, HasSubstr("deadlock"));
}

TEST(interleaving, continues_waiting_threads_when_their_predicate_is_true) {
    const interleave_result result = interleave([]() -> scenario {
        const auto turn = std::make_shared<atomic<int>>(0);
        scenario ring;
        for (int i = 0; i < 5; ++i) {
            ring.threads.push_back([turn, i] {
                wait_until([&] { return turn->load() == i; });
                turn->store(i + 1);
            });
        }
        ring.finally = [turn] { check(*turn == 5, "not every thread has run"); };
        return ring;
    });
    EXPECT_FALSE(result.failure) << result.failure->message;
}

TEST(interleaving, reports_the_exception_of_a_thread) {
    const interleave_result result = interleave([]() -> scenario {
        return {.threads = {[] { scheduling_point(); }, [] { throw std::runtime_error("the reason"); }}, .finally = {}};
    });
    ASSERT_TRUE(result.failure);
    EXPECT_THAT(result.failure->message, HasSubstr("the reason"));
}

TEST(interleaving, reports_a_failed_check_in_a_noexcept_function) {
    const interleave_result result = interleave(
        []() -> scenario { return {.threads = {[]() noexcept { check(false, "the reason"); }}, .finally = {}}; });
    ASSERT_TRUE(result.failure);
    EXPECT_THAT(result.failure->message, HasSubstr("the reason"));
}

TEST(interleaving, reports_an_endless_loop) {
    const interleave_result result = interleave([]() -> scenario {
        const auto never = std::make_shared<atomic<bool>>(false);
        const auto spin = [never] { while (!never->load()); };
        return {.threads = {spin, spin}, .finally = {}};
    });
    ASSERT_TRUE(result.failure);
    EXPECT_THAT(result.failure->message, HasSubstr("no end after 20000 steps"));
}

TEST(interleaving, threads_may_switch_while_they_handle_exceptions) {
    const interleave_result result = interleave(
        []() -> scenario {
            const auto handle = [](int mine) {
                try {
                    throw mine;
                } catch (int caught) {
                    scheduling_point();
                    check(caught == mine, "another thread's exception");
                    try {
                        throw;
                    } catch (int again) {
                        scheduling_point();
                        check(again == mine, "another thread's exception, rethrown");
                    }
                }
            };
            return {.threads = {[=] { handle(1); }, [=] { handle(2); }, [=] { handle(3); }}, .finally = {}};
        },
        {.schedules = 1000});
    EXPECT_FALSE(result.failure) << result.failure->message;
}

TEST(interleaving, refuses_too_many_threads) {
    const auto make = [] { return scenario{.threads = {65, [] {}}, .finally = {}}; };
    EXPECT_THROW(interleave(make), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::sim::interleaving_tests
