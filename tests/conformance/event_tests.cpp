// SPDX-License-Identifier: Apache-2.0
// Events measure the device's time.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::event_tests {
namespace {

class events : public conformance_test {
protected:
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, events, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(events, time_does_not_run_backwards) {
    auto x = submit_to(home, full<unsigned>({1000}, 1));
    auto first = event::record(home);
    step_on(home, x, 1, slow());
    auto second = event::record(home);
    step_on(home, x, 1, slow());
    auto third = event::record(home);
    EXPECT_GE(elapsed(first, second).count(), 0);
    EXPECT_GE(elapsed(second, third).count(), 0);
    EXPECT_GE(elapsed(first, third).count(), elapsed(first, second).count());
    EXPECT_GT(elapsed(first, third).count(), 0);
}

TEST_P(events, an_event_comes_after_what_was_submitted_before_it) {
    bool ran = false;
    home.host_call({"note"}, {[&] { ran = true; }});
    auto after = event::record(home);
    after.wait();
    EXPECT_TRUE(ran);
}

TEST_P(events, recording_does_not_wait) {
    NEEDS_A_GATE();
    auto warm = event::record(home);
    warm.wait();
    gate held(home);
    auto later = event::record(home);
    held.open();
    later.wait();
}

TEST_P(events, an_event_can_be_queried) {
    NEEDS_A_GATE();
    gate held(home);
    const auto later = event::record(home);
    EXPECT_FALSE(later.has_passed());
    held.open();
    while (!later.has_passed()) std::this_thread::yield();
}

TEST_P(events, another_stream_can_wait_for_an_event) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    single_stream others(on);
    const stream other = others.next();
    std::atomic<bool> ran{false};
    gate held(home);
    const auto earlier = event::record(home);
    other.order_after(earlier.point());
    other.host_call({"note"}, {[&] { ran = true; }});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ran);
    held.open();
    other.wait(other.issued(), wait_mode::block);
    EXPECT_TRUE(ran);
}

// The end of a stretch of work on several streams.
TEST_P(events, an_event_can_come_after_several_streams) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin others(on, 2);
    const stream left = others.next(), right = others.next();
    auto x = submit_to(left, zeros<unsigned>({100})), y = submit_to(right, zeros<unsigned>({100}));
    auto begin = event::record(home);
    for (const stream& each : {left, right}) each.order_after(begin.point());
    gate held(right);
    set_on(left, x, 1);
    set_on(right, y, 2);
    for (const stream& each : {left, right}) home.order_after(each.point(each.issued()));
    auto end = event::record(home);
    left.wait(left.issued(), wait_mode::block);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(end.has_passed()) << "one stream is still held";
    held.open();
    EXPECT_GT(elapsed(begin, end).count(), 0);
    EXPECT_EQ(contents(std::move(x), left), std::vector<unsigned>(100, 1));
    EXPECT_EQ(contents(std::move(y), right), std::vector<unsigned>(100, 2));
}

TEST_P(events, an_event_has_no_ticket) {
    const ticket before = home.issued();
    auto x = event::record(home);
    EXPECT_EQ(home.issued(), before);
    x.wait();
}

TEST_P(events, events_of_two_streams_of_a_device_can_be_compared) {
    single_stream other(on);
    auto first = event::record(home);
    first.wait();
    auto x = submit_to(other.next(), full<unsigned>({1000}, 1));
    step_on(other.next(), x, 1, slow());
    auto second = event::record(other.next());
    EXPECT_GE(elapsed(first, second).count(), 0);
}

TEST_P(events, an_event_may_be_dropped_before_it_is_reached) {
    NEEDS_A_GATE();
    gate held(home);
    {
        auto dropped = event::record(home);
    }
    bool ran = false;
    home.host_call({"after"}, {[&ran] { ran = true; }});
    EXPECT_FALSE(ran);
    held.open();
    on.synchronize();
    EXPECT_TRUE(ran);
    EXPECT_NO_THROW(event::record(home).wait());
}

}  // namespace sluice::conformance::event_tests
