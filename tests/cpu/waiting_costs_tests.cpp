// SPDX-License-Identifier: Apache-2.0
// Waits and work in flight leave no memory behind.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstddef>

#include "sluice/op/with_context.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "support/gate.hpp"

namespace sluice::waiting_costs_tests {
namespace {

using namespace std::chrono_literals;

// As counted by the C library. With a sanitizer's allocator this is always 0.
std::ptrdiff_t bytes_in_use() {
    const auto info = mallinfo2();
    return static_cast<std::ptrdiff_t>(info.uordblks + info.hblkhd);
}

class waiting_costs : public testing::Test {
protected:
    auto one_call() {
        return with_context([](execution_context& context) { context.stream().host_call({"call"}, {[] {}}); });
    }

    runtime owner{{.cpu_workers = 1, .cuda = false}};
    device& on = owner.find("cpu:0");
    round_robin pool{on, 1};
    stream only = pool.next();
};

}  // namespace

TEST_F(waiting_costs, checking_whether_a_future_is_ready_leaves_no_waiter) {
    test_support::gate held(only);
    const auto future = spawn(one_call(), pool);
    EXPECT_FALSE(future.wait_for(0s));
    EXPECT_FALSE(future.wait_for(-1s));
    EXPECT_FALSE(future.wait_until(std::chrono::steady_clock::now()));
    EXPECT_FALSE(only.queue().has_waiters());
    held.open();
    EXPECT_TRUE(future.wait_for(1h));
    EXPECT_TRUE(future.wait_for(0s));
}

TEST_F(waiting_costs, a_loop_of_short_waits_keeps_no_memory) {
    test_support::gate held(only);
    const auto future = spawn(one_call(), pool);
    EXPECT_FALSE(future.wait_for(1us));
    const std::ptrdiff_t before = bytes_in_use();
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(future.wait_for(1us));
    EXPECT_LT(bytes_in_use() - before, 10'000);
    held.open();
    EXPECT_TRUE(future.wait_for(1h));
}

TEST_F(waiting_costs, a_future_whose_wait_timed_out_may_be_moved_dropped_and_waited_for_again) {
    test_support::gate held(only);
    auto dropped = spawn(one_call(), pool), kept = spawn(one_call(), pool);
    EXPECT_FALSE(dropped.wait_for(1us));
    EXPECT_FALSE(kept.wait_for(1us));
    dropped = std::move(kept);
    EXPECT_FALSE(dropped.wait_for(1us));
    held.open();
    EXPECT_TRUE(dropped.wait_for(1h));
}

TEST_F(waiting_costs, trim_releases_the_memory_of_a_long_queue) {
    only.host_call({"first"}, {[] {}});
    on.synchronize();
    const std::ptrdiff_t before = bytes_in_use();
    {
        const test_support::gate held(only);
        for (int i = 0; i < 20'000; ++i) only.host_call({"call"}, {[] {}});
    }
    on.synchronize();
    on.trim();
    EXPECT_LT(bytes_in_use() - before, 500'000);
}

// Each call has an outcome, and drops its memory while it is in flight.
TEST_F(waiting_costs, calls_in_flight_need_no_new_memory_in_the_steady_state) {
    constexpr std::size_t in_flight = 200;
    std::vector<device_future<std::tuple<>>> window;
    std::size_t warm = 0;
    for (std::size_t step = 0; step < 20 * in_flight; ++step) {
        const storage_ref block = only.allocate_host(1000);
        const memory_access access{block.get(), access_mode::read};
        only.host_call({"call", {&access, 1}}, {[] {}});
        window.push_back(spawn(one_call(), pool));
        if (window.size() == in_flight) {
            std::move(window.front()).get();
            window.erase(window.begin());
        }
        if (step == 2 * in_flight) warm = on.host_pool().usage().source_calls;
    }
    EXPECT_LE(on.host_pool().usage().source_calls, warm + in_flight);
}

}  // namespace sluice::waiting_costs_tests
