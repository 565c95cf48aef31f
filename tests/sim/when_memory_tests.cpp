// SPDX-License-Identifier: Apache-2.0
// Operations that wait for memory, on a simulated device that has little of it, in virtual time.
#include <gmock/gmock.h>

#include "sim/small_pipelines.hpp"
#include "sluice/async/when_all.hpp"

namespace sluice::sim::when_memory_tests {
namespace {

constexpr std::size_t block_bytes = 512;

// Gives two blocks; a third one is in use in between.
auto two(float value) { return zip(arm(value), arm(value + 1)); }

task<numbers> sum_of_two(scheduling_policy& pool, float value) {
    auto waiting = spawn(when_memory([value] { return two(value); }), pool);
    auto held = co_await std::move(waiting);
    auto summed =
        spawn(launch(add_all{}, each_of(std::get<0>(held)), std::move(std::get<1>(held)), std::move(std::get<0>(held)))
                  .and_then(download),
              pool);
    co_return co_await std::move(summed);
}

}  // namespace

TEST(simulated_memory, operations_that_hold_nothing_while_they_wait_all_get_theirs) {
    const auto pipeline = [](scheduling_policy& pool) -> task<std::tuple<numbers, numbers, numbers>> {
        auto all = when_all(sum_of_two(pool, 1), sum_of_two(pool, 2), sum_of_two(pool, 3));
        co_return co_await std::move(all);
    };
    expect_clean(pipeline, {.schedules = 1'000, .memory_bytes = 4 * block_bytes});
}

TEST(simulated_memory, an_operation_that_can_never_fit_fails_when_nothing_is_left_to_wait_for) {
    const auto pipeline = [](scheduling_policy& pool) -> task<> {
        auto fits = spawn(arm(1).and_then(download), pool);
        auto never = spawn(when_memory([] { return zip(two(1), two(2)); }), pool);
        EXPECT_EQ(co_await std::move(fits), numbers(flat.size(), 4));  // a future holds memory until its value is taken
        try {
            static_cast<void>(co_await std::move(never));
            ADD_FAILURE() << "four blocks where there are three";
        } catch (const out_of_memory& shortage) {
            EXPECT_EQ(shortage.total_bytes(), 3 * block_bytes);
        }
    };
    expect_clean(pipeline, {.schedules = 500, .memory_bytes = 3 * block_bytes});
}

TEST(simulated_memory, waiting_for_it_can_be_given_up_in_virtual_time) {
    const auto pipeline = [](scheduling_policy& pool) -> task<> {
        auto made = spawn(two(1), pool);
        const auto held = co_await std::move(made);
        auto waiting = spawn(timeout(when_memory([] { return two(2); }), std::chrono::seconds(1)), pool);
        try {
            static_cast<void>(co_await std::move(waiting));
            ADD_FAILURE() << "two blocks where there is one";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::timed_out);
        }
    };
    expect_clean(pipeline, {.schedules = 100, .memory_bytes = 3 * block_bytes});
}

}  // namespace sluice::sim::when_memory_tests
