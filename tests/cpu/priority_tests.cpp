// SPDX-License-Identifier: Apache-2.0
// Priorities decide which stream gets a worker first, and streams of many priorities leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sluice/runtime/runtime.hpp"
#include "support/gate.hpp"

namespace sluice::priority_tests {
namespace {

// Keeps a stream busy: each call submits the next, until stop() or until `most` calls have run.
class busy_stream {
public:
    explicit busy_stream(stream on) : on_(on) {}

    void start() { submit(); }
    void stop() { is_over_ = true; }
    int calls() const { return calls_; }
    static constexpr int most = 100'000;

private:
    void submit() {
        on_.host_call({"busy"}, {[this] {
                          if (++calls_ < most && !is_over_) submit();
                      }});
    }

    stream on_;
    std::atomic<bool> is_over_{false};
    std::atomic<int> calls_{0};
};

class priorities : public testing::Test {
protected:
    stream_lease make(int priority) { return stream_lease(on, {.priority = priority}); }
    static void write(stream by, const storage_ref& what, std::function<void()> call = [] {}) {
        const memory_access access{what.get(), access_mode::write};
        by.host_call({"write", {&access, 1}}, {std::move(call)});
    }

    runtime owner{{.cpu_workers = 1, .cuda = false}};
    device& on = owner.find("cpu:0");
};

}  // namespace

TEST_F(priorities, a_command_that_an_urgent_one_waits_for_runs_before_a_busy_stream_of_middle_priority) {
    const stream_lease urgent = make(-5), middle = make(0), low = make(5);
    busy_stream busy(*middle);
    const storage_ref data = low->allocate(8);
    std::atomic<int> came_after = -1;
    {
        const test_support::gate held(*middle);
        write(*low, data);
        write(*urgent, data, [&] {
            came_after = busy.calls();
            busy.stop();
        });
        busy.start();
    }
    on.synchronize();
    on.synchronize();  // the busy stream's last call
    EXPECT_LT(came_after, busy_stream::most / 2);
}

TEST_F(priorities, urgency_is_passed_on_along_a_chain_of_waiting_streams) {
    const stream_lease urgent = make(-5), middle = make(0);
    const stream_lease low[] = {make(5), make(6), make(7), make(8)};
    busy_stream busy(*middle);
    const storage_ref data = middle->allocate(8);
    std::atomic<int> came_after = -1;
    {
        const test_support::gate held(*middle);
        for (const stream_lease& each : {std::cref(low[3]), std::cref(low[0]), std::cref(low[2]), std::cref(low[1])})
            write(*each, data);
        write(*urgent, data, [&] {
            came_after = busy.calls();
            busy.stop();
        });
        busy.start();
    }
    on.synchronize();
    on.synchronize();  // the busy stream's last call
    EXPECT_LT(came_after, busy_stream::most / 2);
}

// low waits for lower and lower for lowest before the urgent stream comes: they hand on what they inherit then. (One
// stream would not show it: a stream looks at those that wait for it when a command of it ends.)
TEST_F(priorities, urgency_is_passed_on_through_streams_that_have_parked_already) {
    const runtime two({.cpu_workers = 2, .cuda = false});
    device& busy_device = two.find("cpu:0");
    const auto lease = [&](int priority) { return stream_lease(busy_device, {.priority = priority}); };
    const stream_lease urgent = lease(-5), middle = lease(0), low = lease(5), lower = lease(6), lowest = lease(7),
                       marker = lease(9);
    busy_stream busy(*middle);
    const auto until = [](const auto& holds) {
        while (!holds()) std::this_thread::yield();  // a thread that waits for a stream would run it
    };
    std::atomic<int> marks = 0, came_after = -1;
    const auto mark_idle_worker = [&](int number) {  // all that one worker can do has been done
        marker->host_call({"mark"}, {[&] { ++marks; }});
        until([&] { return marks == number; });
    };

    test_support::gate first_worker(*lowest);
    first_worker.wait_until_reached();
    const storage_ref data = lowest->allocate(8);
    for (const stream_lease* each : {&lowest, &lower, &low}) write(**each, data);
    mark_idle_worker(1);
    write(*urgent, data, [&] {
        came_after = busy.calls();
        busy.stop();
    });
    mark_idle_worker(2);
    const stream_lease held = lease(-6);
    test_support::gate second_worker(*held);
    second_worker.wait_until_reached();
    busy.start();
    first_worker.open();
    until([&] { return came_after != -1; });
    second_worker.open();
    busy_device.synchronize();
    busy_device.synchronize();  // the busy stream's last call
    EXPECT_LT(came_after, busy_stream::most / 2);
}

TEST_F(priorities, a_stream_returns_to_its_own_priority_when_no_urgent_stream_waits_for_it) {
    const stream_lease urgent = make(-5), middle = make(0), low = make(5);
    const storage_ref data = low->allocate(8);
    write(*low, data);
    write(*urgent, data);
    on.synchronize();
    std::atomic<int> order = 0;
    int middle_came = -1, low_came = -1;
    {
        const test_support::gate held(*urgent);
        low->host_call({"low"}, {[&] { low_came = order++; }});
        middle->host_call({"middle"}, {[&] { middle_came = order++; }});
    }
    on.synchronize();
    EXPECT_EQ(middle_came, 0);
    EXPECT_EQ(low_came, 1);
}

TEST_F(priorities, streams_of_one_priority_run_in_the_order_in_which_they_became_ready) {
    const stream_lease first = make(0), second = make(0), third = make(0), held_one = make(-1);
    std::vector<int> order;
    {
        const test_support::gate held(*held_one);
        third->host_call({"third"}, {[&] { order.push_back(3); }});
        first->host_call({"first"}, {[&] { order.push_back(1); }});
        second->host_call({"second"}, {[&] { order.push_back(2); }});
    }
    on.synchronize();
    EXPECT_EQ(order, (std::vector<int>{3, 1, 2}));
}

TEST_F(priorities, an_urgent_stream_waits_for_one_command_of_another) {
    const stream_lease urgent = make(-5), busy = make(0), held_one = make(-6);
    std::vector<int> order;
    {
        const test_support::gate held(*held_one);
        busy->host_call({"first"}, {[&] {
                            order.push_back(1);
                            urgent->host_call({"urgent"}, {[&] { order.push_back(0); }});
                        }});
        for (int i = 2; i < 20; ++i) busy->host_call({"next"}, {[&order, i] { order.push_back(i); }});
    }
    on.synchronize();
    ASSERT_EQ(order.size(), 20u);
    EXPECT_EQ(order[0], 1);
    EXPECT_EQ(order[1], 0);
}

TEST_F(priorities, a_stream_with_long_commands_lets_others_of_its_priority_run_after_a_while) {
    const stream_lease busy = make(0), other = make(0), held_one = make(-6);
    int calls = 0, came_after = -1;
    {
        const test_support::gate held(*held_one);
        for (int i = 0; i < 40; ++i) {
            busy->host_call({"long"}, {[&] {
                                if (calls++ == 0) other->host_call({"other"}, {[&] { came_after = calls; }});
                                std::this_thread::sleep_for(std::chrono::milliseconds(2));
                            }});
        }
    }
    on.synchronize();
    EXPECT_EQ(calls, 40);
    EXPECT_GE(came_after, 1);
    EXPECT_LE(came_after, 10);
}

TEST_F(priorities, a_lease_with_a_new_priority_reuses_the_idle_stream) {
    for (int priority = 0; priority < 1000; ++priority) {
        const stream_lease lease = make(priority);
        lease->host_call({"call"}, {[] {}});
        on.synchronize();
    }
    EXPECT_EQ(on.all_queues().size(), 1u);
}

TEST_F(priorities, a_running_stream_keeps_its_priority) {
    const stream_lease held_one = make(0);
    const test_support::gate held(*held_one);
    const command_queue* left = nullptr;
    {
        const stream_lease busy = make(3);
        busy->host_call({"call"}, {[] {}});
        left = &busy->queue();
    }
    EXPECT_NE(&make(-3)->queue(), left);
    EXPECT_EQ(&make(3)->queue(), left);
}

}  // namespace sluice::priority_tests
