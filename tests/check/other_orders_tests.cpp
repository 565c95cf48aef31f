// SPDX-License-Identifier: Apache-2.0
// What is found where the host's threads make their calls in another order than in the trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/support/simulated_driver.hpp"
#include "check/thread_orders.hpp"

namespace sluice::check::other_orders_tests {
namespace {

using testing::reads;
using testing::simulated_driver;
using testing::writes;

std::vector<std::string> kinds_of(const check_report& report) {
    std::vector<std::string> kinds;
    for (const finding& each : report.findings) kinds.emplace_back(to_string(each.what));
    return kinds;
}

event call_of(call what, std::uint64_t thread, std::uint64_t stream, std::uint64_t id = 0) {
    event made;
    made.what = what;
    made.thread = thread;
    made.stream = stream;
    made.has_stream = stream != 0;
    made.id = id;
    return made;
}

}  // namespace

TEST(other_orders, show_a_wait_that_another_thread_may_make_before_the_record) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    const auto done = cuda.create_event();
    cuda.launch("make", a, {writes(x)});
    cuda.record(done, a);
    cuda.on_thread(2);
    cuda.wait(b, done);
    cuda.launch("use", b, {reads(x)});
    EXPECT_TRUE(cuda.check().findings.empty());
    const check_report report = cuda.check({.orders = 8});
    EXPECT_EQ(report.orders, 8u);
    EXPECT_THAT(kinds_of(report), ::testing::UnorderedElementsAre("wait without record", "race"));
    for (const finding& each : report.findings) {
        EXPECT_FALSE(each.is_certain);
        EXPECT_THAT(each.message, ::testing::HasSubstr("threads of the host make their calls in another order"));
    }
}

TEST(other_orders, do_not_repeat_what_the_order_of_the_trace_shows) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    cuda.launch("make", a, {writes(x)});
    cuda.on_thread(2);
    cuda.launch("use", b, {reads(x)});
    EXPECT_THAT(kinds_of(cuda.check({.orders = 20})), ::testing::ElementsAre("race"));
}

TEST(other_orders, are_none_with_one_thread) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    cuda.launch("make", a, {writes(x)});
    cuda.order(a, b);
    cuda.launch("use", b, {reads(x)});
    const check_report report = cuda.check({.orders = 20});
    EXPECT_EQ(report.orders, 0u);
    EXPECT_TRUE(report.findings.empty());
}

TEST(other_orders, keep_the_life_of_what_threads_share) {
    // Threads in turn allocate, use and free the same memory on one stream, which the first one creates.
    simulated_driver cuda;
    const auto a = cuda.non_blocking();
    for (std::uint64_t i = 0; i < 12; ++i) {
        cuda.on_thread(1 + i % 3);
        const auto x = cuda.malloc_async_at(0x10000, a);
        cuda.on_thread(1 + (i + 1) % 3);
        cuda.launch("use", a, {writes(x)});
        cuda.on_thread(1 + (i + 2) % 3);
        cuda.free_async(x, a);
    }
    const check_report report = cuda.check({.orders = 30});
    EXPECT_EQ(report.orders, 30u);
    EXPECT_THAT(kinds_of(report), ::testing::IsEmpty());
}

TEST(other_orders, keep_the_calls_of_a_capture_as_they_were) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking(), c = cuda.non_blocking();
    const auto x = cuda.malloc(), y = cuda.malloc();
    cuda.begin_capture(a);
    cuda.launch("make", a, {writes(x)});
    cuda.on_thread(2);
    cuda.launch("its_own", c, {writes(y)});
    cuda.on_thread(1);
    cuda.order(a, b);
    cuda.launch("use", b, {reads(x)});
    cuda.order(b, a);
    cuda.launch_graph(cuda.instantiate(cuda.end_capture(a)), a);
    EXPECT_THAT(kinds_of(cuda.check({.orders = 30})), ::testing::IsEmpty());
}

TEST(thread_orders, have_each_call_once_and_each_thread_in_its_own_order) {
    std::vector<event> calls{call_of(call::stream, 0, 1), call_of(call::stream, 0, 2)};
    for (std::uint64_t i = 0; i < 30; ++i) calls.push_back(call_of(call::record, 1 + i % 3, 1 + i % 2, i % 5));
    const thread_orders orders(calls);
    ASSERT_EQ(orders.threads(), 3u);
    for (std::size_t which = 0; which < 40; ++which) {
        const std::vector<std::uint32_t> order = orders.order(which);
        std::vector<std::uint32_t> sorted = order;
        std::ranges::sort(sorted);
        ASSERT_EQ(sorted.size(), calls.size());
        for (std::uint32_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
        for (std::uint64_t thread = 0; thread < 4; ++thread) {
            std::vector<std::uint32_t> own;
            std::ranges::copy_if(order, std::back_inserter(own), [&](auto i) { return calls[i].thread == thread; });
            EXPECT_TRUE(std::ranges::is_sorted(own));
        }
    }
    // The third thread before all others: only what it needs comes before it.
    const std::vector<std::uint32_t> third = orders.order(2);
    EXPECT_TRUE(std::all_of(third.begin() + 2, third.begin() + 12, [&](auto i) { return calls[i].thread == 3; }));
}

}  // namespace sluice::check::other_orders_tests
