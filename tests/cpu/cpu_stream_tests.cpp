// SPDX-License-Identifier: Apache-2.0
// Properties of streams on worker threads: they park, wake, alternate and share few workers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>

#include "sluice/base/error.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::cpu_stream_tests {
namespace {

class device_with_workers {
protected:
    explicit device_with_workers(std::size_t workers)
        : owner({.cpu_devices = 1, .cpu_workers = workers, .cuda = false}) {}

    // After this call the stream runs nothing until `opened` counts down.
    void hold(stream held) {
        held.host_call({"gate"}, {[this] { opened.wait(); }});
    }
    std::vector<stream_lease> many(std::size_t count) {
        std::vector<stream_lease> made;
        for (std::size_t i = 0; i < count; ++i) made.emplace_back(on);
        return made;
    }

    std::latch opened{1};
    runtime owner;
    device& on = owner.find("cpu:0");
};

class cpu_streams : public testing::TestWithParam<std::size_t>, protected device_with_workers {
protected:
    cpu_streams() : device_with_workers(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(, cpu_streams, testing::Values(1, 2, 4),
                         [](const auto& workers) { return "with_" + std::to_string(workers.param) + "_workers"; });

class cpu_streams_with_one_worker : public testing::Test, protected device_with_workers {
protected:
    cpu_streams_with_one_worker() : device_with_workers(1) {}
};

class cpu_streams_with_three_workers : public testing::Test, protected device_with_workers {
protected:
    cpu_streams_with_three_workers() : device_with_workers(3) {}
};

}  // namespace

TEST_P(cpu_streams, the_device_has_the_requested_number_of_workers) {
    EXPECT_EQ(on.properties().compute_units, static_cast<int>(GetParam()));
    EXPECT_FALSE(on.properties().name.empty());
    EXPECT_GT(on.properties().memory_bytes, 0u);
}

TEST_P(cpu_streams, a_chain_of_waiting_streams_may_be_longer_than_there_are_workers) {
    const auto streams = many(64);
    std::vector<int> order;
    hold(*streams[0]);
    for (std::size_t i = 0; i < streams.size(); ++i) {
        if (i > 0) streams[i]->order_after(streams[i - 1]->point(streams[i - 1]->issued()));
        streams[i]->host_call({"note"}, {[&order, i] { order.push_back(static_cast<int>(i)); }});
    }
    opened.count_down();
    on.synchronize();
    ASSERT_EQ(order.size(), streams.size());
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
}

TEST_P(cpu_streams, many_streams_may_wait_for_one) {
    const auto streams = many(50);
    hold(*streams[0]);
    bool before = false;
    streams[0]->host_call({"note"}, {[&] { before = true; }});
    std::atomic<int> woken = 0;
    for (std::size_t i = 1; i < streams.size(); ++i) {
        streams[i]->order_after(streams[0]->point(streams[0]->issued()));
        streams[i]->host_call({"note"}, {[&] { woken += before ? 1 : 0; }});
    }
    EXPECT_EQ(woken, 0);
    opened.count_down();
    on.synchronize();
    EXPECT_EQ(woken, 49);
}

TEST_F(cpu_streams_with_three_workers, wake_only_for_the_ticket_they_wait_for) {
    const auto streams = many(3);
    std::latch second(1);
    hold(*streams[0]);
    const ticket first_ticket = streams[0]->host_call({"note"}, {[] {}});
    streams[0]->host_call({"gate"}, {[&] { second.wait(); }});
    const ticket last_ticket = streams[0]->host_call({"note"}, {[] {}});
    streams[1]->order_after(streams[0]->point(first_ticket));
    const ticket early = streams[1]->host_call({"note"}, {[] {}});
    streams[2]->order_after(streams[0]->point(last_ticket));
    const ticket late = streams[2]->host_call({"note"}, {[] {}});
    opened.count_down();
    streams[1]->wait(early, wait_mode::block);
    EXPECT_LT(streams[2]->passed(), late);
    second.count_down();
    streams[2]->wait(late, wait_mode::block);
}

TEST_F(cpu_streams_with_one_worker, alternate_however_long_their_queues_are) {
    const auto streams = many(2);
    int run = 0;
    int run_before_the_other = -1;
    hold(*streams[0]);
    for (int i = 0; i < 10'000; ++i) streams[0]->host_call({"note"}, {[&] { ++run; }});
    streams[1]->host_call({"note"}, {[&] { run_before_the_other = run; }});
    opened.count_down();
    on.synchronize();
    EXPECT_EQ(run, 10'000);
    EXPECT_LT(run_before_the_other, 1000);
}

TEST_P(cpu_streams, far_more_streams_than_workers_all_finish) {
    const auto streams = many(300);
    std::atomic<int> run = 0;
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < streams.size(); ++i) {
            const stream_lease& other = streams[(i * 7 + 1) % streams.size()];
            streams[i]->order_after(other->point(other->issued()));
            streams[i]->host_call({"note"}, {[&] { ++run; }});
        }
    }
    on.synchronize();
    EXPECT_EQ(run, 6000);
}

TEST_P(cpu_streams, streams_may_wait_for_each_other_alternately) {
    const auto streams = many(2);
    std::vector<int> order;
    for (int i = 0; i < 500; ++i) {
        const stream_lease& here = streams[static_cast<std::size_t>(i % 2)];
        const stream_lease& there = streams[static_cast<std::size_t>(1 - i % 2)];
        here->order_after(there->point(there->issued()));
        here->host_call({"note"}, {[&order, i] { order.push_back(i); }});
    }
    on.synchronize();
    ASSERT_EQ(order.size(), 500u);
    for (int i = 0; i < 500; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(cpu_streams, several_threads_may_wait_for_one_ticket) {
    const stream_lease home(on);
    hold(*home);
    const ticket last = home->host_call({"note"}, {[] {}});
    std::atomic<int> passed = 0;
    {
        std::vector<std::jthread> waiting;
        for (const wait_mode mode : {wait_mode::block, wait_mode::yield, wait_mode::block, wait_mode::spin}) {
            waiting.emplace_back([&, mode] {
                home->wait(last, mode);
                passed += home->passed() >= last ? 1 : 0;
            });
        }
        opened.count_down();
    }
    EXPECT_EQ(passed, 4);
}

TEST_P(cpu_streams, a_runtime_may_be_destroyed_while_streams_are_parked) {
    std::atomic<int> run = 0;
    {
        runtime short_lived({.cpu_devices = 1, .cpu_workers = GetParam(), .cuda = false});
        std::vector<stream_lease> streams;
        for (int i = 0; i < 8; ++i) streams.emplace_back(short_lived.find("cpu"));
        hold(*streams[0]);
        for (std::size_t i = 1; i < streams.size(); ++i) {
            streams[i]->host_call({"note"}, {[&] { ++run; }});
            streams[i]->order_after(streams[0]->point(streams[0]->issued()));
            if (i % 2 == 0) streams[i]->host_call({"note"}, {[&] { ++run; }});
        }
        opened.count_down();
    }
    EXPECT_EQ(run, 7 + 3);
}

// One worker looks for work for a while after each command, and takes the first stream; another one must be woken for
// the second stream.
TEST(cpu_stream, a_worker_is_woken_for_a_second_stream_while_another_one_looks_for_work) {
    const runtime owner({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
    device& on = owner.find("cpu:0");
    const stream_lease first(on), second(on);
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> arrived = 0;
        std::atomic<bool> is_late = false;
        const auto meet = [&] {
            ++arrived;
            while (arrived != 2 && !is_late) std::this_thread::yield();
        };
        first->host_call({"first"}, {meet});
        second->host_call({"second"}, {meet});
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (arrived != 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        const bool have_met = arrived == 2;
        is_late = true;
        on.synchronize();
        ASSERT_TRUE(have_met) << "in round " << round;
    }
}

TEST_P(cpu_streams, what_a_host_call_owns_is_destroyed_before_its_outcome_is_known) {
    const stream_lease home(on);
    const storage_ref data = home->allocate(8);
    std::atomic<int> was_known = -1;
    const auto look = [&was_known, data](void*) { was_known = data->last_write().depends_on->is_fine() ? 1 : 0; };
    hold(*home);
    const memory_access access{data.get(), access_mode::write};
    home->host_call({"owner", {&access, 1}}, {[owned = std::shared_ptr<void>(&was_known, look)] {}});
    opened.count_down();
    on.synchronize();
    EXPECT_EQ(was_known, 0);
    EXPECT_TRUE(data->last_write().depends_on->is_fine());
}

TEST_P(cpu_streams, the_memory_limit_is_enforced) {
    const runtime small({.cpu_devices = 1, .cpu_workers = GetParam(), .cpu_memory_bytes = 64 << 20, .cuda = false});
    const stream_lease home(small.find("cpu"));
    EXPECT_EQ(small.find("cpu").memory().total_bytes, std::size_t{64} << 20);
    const storage_ref most = home->allocate(std::size_t{48} << 20);
    EXPECT_THROW(home->allocate(std::size_t{32} << 20), out_of_memory);
    EXPECT_TRUE(home->allocate(std::size_t{16} << 20));
}

}  // namespace sluice::cpu_stream_tests
