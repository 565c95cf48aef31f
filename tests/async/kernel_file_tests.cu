// SPDX-License-Identifier: Apache-2.0
// Files with kernels can include the headers of this room and define tasks.
#include <gtest/gtest.h>

#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"

namespace sluice::kernel_file_tests {
namespace {

task<int> hop(executor& to, int value) {
    co_await resume_on(to);
    co_return value;
}

task<int> use_everything(executor& pool) {
    auto both = when_all(hop(pool, 1), hop(pool, 2));
    auto [one, two] = co_await std::move(both);
    auto either = when_any(hop(pool, 3), spawn(hop(pool, 3), pool));
    auto first = co_await std::move(either);
    const int three = first.index == 0 ? std::get<0>(first.value) : std::get<1>(first.value);
    co_return one + two + three;
}

TEST(tasks_in_a_kernel_file, are_awaited) {
    thread_pool pool(2);
    EXPECT_EQ(sync_wait(use_everything(pool)), 6);
}

TEST(tasks_in_a_kernel_file, run_on_a_loop) {
    run_loop loop;
    auto result = spawn(hop(loop, 4), loop);
    while (loop.run_pending() != 0) {
    }
    EXPECT_EQ(std::move(result).get(), 4);
}

}  // namespace
}  // namespace sluice::kernel_file_tests
