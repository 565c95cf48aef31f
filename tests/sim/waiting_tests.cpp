// SPDX-License-Identifier: Apache-2.0
// Waits of the host for tasks, on the thread of a simulator: they run the simulated devices meanwhile.
#include <gmock/gmock.h>

#include "sim/small_pipelines.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"

namespace sluice::sim::waiting_tests {
namespace {

task<float> last_of(scheduling_policy& pool) {
    auto future = spawn(upload(std::vector<float>{1, 2, 3}).and_then(download), pool);
    std::vector<float> y = co_await std::move(future);
    co_return y.back();
}

}  // namespace

TEST(waiting, sync_wait_of_a_task_in_an_explored_function_returns) {
    const auto made = explore([](scheduling_policy& pool) { return sync_wait(last_of(pool)); }, {.schedules = 200});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(waiting, get_of_a_spawned_task_in_an_explored_function_returns) {
    const auto made = explore(
        [](scheduling_policy& pool) {
            inline_executor here;
            auto first = spawn(last_of(pool), here), second = spawn(last_of(pool), here);
            second.wait();
            return std::move(first).get() + std::move(second).get();
        },
        {.schedules = 200});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(waiting, sync_wait_drives_a_simulator_of_ones_own) {
    simulator machine;
    EXPECT_EQ(sync_wait(last_of(machine.pool())), 3);
    machine.require_clean();
}

TEST(waiting, a_timed_wait_counts_virtual_time) {
    simulator machine;
    inline_executor here;
    auto running = spawn(last_of(machine.pool()), here);
    EXPECT_TRUE(running.wait_for(std::chrono::hours(1)));
    EXPECT_EQ(std::move(running).get(), 3);
}

TEST(waiting, a_task_of_a_pool_of_threads_is_waited_for_in_an_explored_function) {
    thread_pool threads(1);
    const auto made = explore(
        [&](scheduling_policy&) {
            auto body = []() -> task<int> { co_return 7; };
            return spawn(body(), threads).get();
        },
        {.schedules = 10});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(waiting, a_task_that_never_ends_is_a_finding) {
    run_loop never;
    const auto made = explore(
        [&](scheduling_policy&) {
            auto body = [&]() -> task<int> {
                co_await resume_on(never);
                co_return 1;
            };
            return sync_wait(body());
        },
        {.schedules = 1});
    ASSERT_FALSE(made.is_clean());
    EXPECT_THAT(made.found->message, testing::HasSubstr("nothing more can run, and the host still waits"));
}

}  // namespace sluice::sim::waiting_tests
