// SPDX-License-Identifier: Apache-2.0
// Commands whose work is shared by workers with nothing else to do.
#include "runtime/parallel_parts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cfenv>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cpu/long_command.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/gate.hpp"

namespace sluice::parallel_parts_tests {
namespace {

using detail::for_parts;

class parallel_parts : public testing::Test {
protected:
    stream_lease make() { return stream_lease(on); }

    runtime owner{{.cpu_workers = 3, .cuda = false}};
    device& on = owner.find("cpu:0");
    single_stream policy{on};
};

}  // namespace

TEST_F(parallel_parts, are_carried_out_side_by_side_each_once) {
    std::set<std::thread::id> threads;
    std::vector<int> calls(100, 0);
    std::mutex mutex;
    std::latch all_three(3);
    sync(host_call([&] {
             for_parts(calls.size(), [&](std::size_t part) {
                 ++calls[part];
                 if (part < 3) all_three.arrive_and_wait();  // three threads are in their parts at the same time
                 const std::lock_guard lock(mutex);
                 threads.insert(std::this_thread::get_id());
             });
         }),
         policy);
    EXPECT_EQ(calls, std::vector<int>(100, 1));
    EXPECT_EQ(threads.size(), 3u);  // the thread that waits is one of them; there are as many as workers
}

TEST_F(parallel_parts, of_a_busy_device_are_carried_out_by_the_thread_that_shares_them) {
    const stream_lease first = make(), second = make(), third = make();
    const test_support::gate held_first(*first), held_second(*second), held_third(*third);
    std::vector<std::thread::id> threads(20);
    sync(host_call(
             [&] { for_parts(threads.size(), [&](std::size_t part) { threads[part] = std::this_thread::get_id(); }); }),
         policy);
    EXPECT_EQ(threads, std::vector<std::thread::id>(20, std::this_thread::get_id()));
}

// A stream that becomes ready waits for one part at most.
TEST_F(parallel_parts, leave_a_worker_to_a_stream_that_becomes_ready) {
    std::atomic<bool> stream_has_run = false;
    std::atomic<std::size_t> begun = 0;
    std::latch all_three(3);
    auto shared = spawn(host_call([&] {
                            for_parts(10'000, [&](std::size_t part) {
                                ++begun;
                                if (part < 3) all_three.arrive_and_wait();
                                std::this_thread::sleep_for(std::chrono::milliseconds(stream_has_run ? 0 : 1));
                            });
                        }),
                        policy);
    all_three.wait();
    const stream_lease other = make();
    other->host_call({"other"}, {[&] { stream_has_run = true; }});
    shared.wait();
    EXPECT_TRUE(stream_has_run);
    EXPECT_EQ(begun, 10'000u);
}

TEST_F(parallel_parts, that_fail_fail_the_command_and_leave_out_the_rest) {
    std::atomic<std::size_t> begun = 0;
    const auto failing = [&] {
        sync(host_call([&] {
                 for_parts(10'000, [&](std::size_t part) {
                     ++begun;
                     if (part == 5) throw std::runtime_error("part 5");
                     std::this_thread::yield();
                 });
             }),
             policy);
    };
    for (int i = 0; i < 20; ++i) {
        begun = 0;
        try {
            failing();
            FAIL();
        } catch (const std::exception& failure) {
            EXPECT_NE(std::string_view(failure.what()).find("part 5"), std::string_view::npos);
        }
        EXPECT_GE(begun, 6u);
        EXPECT_LT(begun, 10'000u);
    }
}

TEST_F(parallel_parts, may_have_parts_themselves) {
    std::atomic<std::size_t> calls = 0;
    sync(host_call([&] { for_parts(20, [&](std::size_t) { for_parts(20, [&](std::size_t) { ++calls; }); }); }), policy);
    EXPECT_EQ(calls, 400u);
}

// A thread more than there are workers would take the core of another one. The thread that waits computes too.
TEST_F(parallel_parts, of_parts_take_no_more_threads_than_there_are_workers) {
    std::atomic<int> computing = 0, most = 0;
    for (int round = 0; round < 20; ++round) {
        sync(host_call([&] {
                 for_parts(2, [&](std::size_t) {
                     for_parts(50, [&](std::size_t) {
                         const int now = ++computing;
                         for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
                         }
                         std::this_thread::sleep_for(std::chrono::microseconds(200));
                         --computing;
                     });
                 });
             }),
             policy);
    }
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 2);
}

TEST(parallel_parts_of_a_long_command, have_help_as_soon_as_another_command_has_ended) {
    test_support::expect_help_for_a_long_command([](std::size_t parts, const auto& body) { for_parts(parts, body); });
}

// Of several streams at once.
TEST_F(parallel_parts, of_several_commands_are_not_mixed) {
    round_robin pool(on, 4);
    std::vector<device_future<std::tuple<>>> all;
    std::vector<std::atomic<std::size_t>> sums(200);
    for (std::size_t i = 0; i < sums.size(); ++i) {
        all.push_back(
            spawn(host_call([&sums, i] { for_parts(50, [&](std::size_t part) { sums[i] += part; }); }), pool));
    }
    for (auto& each : all) each.wait();
    for (const auto& each : sums) EXPECT_EQ(each, 49u * 50 / 2);
}

// Rounding upwards in the thread that waits changes no result.
TEST_F(parallel_parts, compute_as_a_worker_does) {
    std::vector<int> rounding(50, -1);
    const int before = std::fegetround();
    std::fesetround(FE_UPWARD);
    sync(host_call([&] { for_parts(rounding.size(), [&](std::size_t part) { rounding[part] = std::fegetround(); }); }),
         policy);
    std::fesetround(before);
    EXPECT_EQ(rounding, std::vector<int>(50, before));
}

TEST(parallel_parts_elsewhere, are_carried_out_in_order) {
    std::vector<std::size_t> order;
    for_parts(5, [&](std::size_t part) { order.push_back(part); });
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(ranges_of_parts, cover_all_once_in_whole_units) {
    for (const std::size_t size : {0u, 1u, 7u, 64u, 100u, 1000u}) {
        for (const std::size_t parts : {1u, 2u, 3u, 32u}) {
            for (const std::size_t unit : {1u, 8u, 64u}) {
                std::size_t at = 0;
                for (std::size_t part = 0; part < parts; ++part) {
                    const auto range = detail::range_of_part(size, parts, part, unit);
                    EXPECT_EQ(range.first, at);
                    EXPECT_GE(range.last, range.first);
                    if (range.last != size) {
                        EXPECT_EQ(range.last % unit, 0u);
                    }
                    at = range.last;
                }
                EXPECT_EQ(at, size);
            }
        }
    }
}

}  // namespace sluice::parallel_parts_tests
