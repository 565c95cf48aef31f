// SPDX-License-Identifier: Apache-2.0
// Every waiter for a device that faults receives the error, however it waits and whether or not another thread polls.
#include <chrono>
#include <optional>

#include "conformance/support/awaiting.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::faults::fault_waiter_tests {
namespace {

using conformance::failure_of;
using conformance::here;
using conformance::note_after;
using conformance::value_of;
using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 200;
constexpr const char* told = "a command on fake:0: broken";

auto work(unsigned start) { return full<unsigned>({size}, start).and_then(download); }

class fault_waiters : public testing::Test {
protected:
    fault_waiters() { fakes.first.works.hold(); }
    void break_down() { fakes.first.works.fault("broken"); }

    faulty_runtime fakes;
    round_robin pool{fakes.on, 4};
};

task<numbers> value_elsewhere(device_future<pending<numbers>> future, executor& target) {
    auto elsewhere = std::move(future).resume_on(target);
    co_return co_await std::move(elsewhere);
}

// The coroutine's frame holds the last reference to the runtime, and drops it.
task<std::string> drop_after(std::unique_ptr<faulty_runtime> last, device_future<pending<numbers>> future) {
    std::string failure;
    try {
        static_cast<void>(co_await std::move(future));
    } catch (const std::exception& thrown) {
        failure = thrown.what();
    }
    last.reset();
    co_return failure;
}

}  // namespace

TEST_F(fault_waiters, a_thread_in_get_receives_the_error) {
    auto future = spawn(work(1), pool);
    std::jthread breaking([&] { break_down(); });
    EXPECT_EQ(failure_of(std::move(future)), told);
}

TEST_F(fault_waiters, a_thread_in_sync_receives_the_error) {
    std::jthread breaking([&] { break_down(); });
    EXPECT_EQ(failure_of([&] { sync(work(1), pool); }), told);
}

TEST_F(fault_waiters, a_thread_in_wait_for_receives_the_error) {
    auto future = spawn(work(1), pool);
    EXPECT_FALSE(future.wait_for(0s));
    break_down();
    EXPECT_TRUE(future.wait_for(1h));
    EXPECT_EQ(failure_of([&] { future.wait(); }), told);
    EXPECT_EQ(failure_of(std::move(future)), told);
}

TEST_F(fault_waiters, a_coroutine_receives_the_error) {
    auto waiting = spawn(value_of(spawn(work(1), pool)), here());
    break_down();
    EXPECT_EQ(failure_of(std::move(waiting)), told);
}

TEST_F(fault_waiters, a_coroutine_that_resumes_on_another_thread_receives_the_error) {
    thread_pool threads(1);
    auto waiting = spawn(value_elsewhere(spawn(work(1), pool), threads), here());
    break_down();
    EXPECT_EQ(failure_of(std::move(waiting)), told);
}

TEST_F(fault_waiters, a_thread_that_waits_for_data_receives_the_error) {
    auto x = conformance::submit_to(pool.next(), zeros<unsigned>({size}));
    break_down();
    EXPECT_EQ(failure_of([&] { x.memory()->await_last_write(); }), told);
    EXPECT_EQ(failure_of([&] { x.memory()->await_all_uses(); }), told);
}

TEST_F(fault_waiters, waiters_of_all_kinds_on_all_streams_receive_one_cause) {
    std::vector<device_future<pending<numbers>>> futures;
    std::vector<spawned<numbers>> waiting;
    for (unsigned i = 0; i < 40; ++i) futures.push_back(spawn(work(i), pool));
    for (unsigned i = 0; i < 40; ++i) waiting.push_back(spawn(value_of(spawn(work(i), pool)), here()));
    std::atomic<int> told_to = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] { told_to += failure_of([&] { sync(work(1), pool); }) == told ? 1 : 0; });
        }
        threads.emplace_back([&] { told_to += futures[7].wait_for(1h) ? 1 : 0; });
        fakes.first.works.allow(5);
        break_down();
    }
    EXPECT_EQ(told_to, 5);
    // The device may have run the first few commands.
    int failed = 0;
    for (auto& each : futures) failed += failure_of(std::move(each)) == told ? 1 : 0;
    for (auto& each : waiting) failed += failure_of(std::move(each)) == told ? 1 : 0;
    EXPECT_GE(failed, 75);
}

TEST_F(fault_waiters, when_all_reports_the_error_after_the_last) {
    auto all = spawn(when_all(spawn(work(1), pool), spawn(work(2), pool), spawn(value(3), pool)), here());
    EXPECT_FALSE(all.is_ready());
    break_down();
    EXPECT_EQ(failure_of(std::move(all)), told);
}

TEST_F(fault_waiters, a_coroutine_destroyed_before_the_fault_is_not_resumed) {
    std::atomic<bool> resumed = false;
    auto waiting = note_after(spawn(work(1), pool), resumed);
    auto other = spawn(value_of(spawn(work(2), pool)), here());
    waiting.destroy();
    break_down();
    EXPECT_EQ(failure_of(std::move(other)), told);
    EXPECT_FALSE(resumed);
}

TEST_F(fault_waiters, a_waiter_after_the_fault_receives_the_error_too) {
    auto early = spawn(value_of(spawn(work(1), pool)), here());
    auto late = spawn(work(2), pool);
    break_down();
    EXPECT_EQ(failure_of(std::move(early)), told);
    EXPECT_TRUE(late.wait_for(1h));
    EXPECT_EQ(failure_of([&] { sync_wait(std::move(late)); }), told);
}

TEST_F(fault_waiters, waiting_breaking_and_submitting_may_coincide) {
    for (int round = 0; round < 100; ++round) {
        faulty_runtime short_lived;
        round_robin streams(short_lived.on, 3);
        std::vector<device_future<pending<numbers>>> futures;
        for (unsigned i = 0; i < 6; ++i) futures.push_back(spawn(work(i), streams));
        {
            std::jthread submitting([&] {
                while (failure_of([&] { static_cast<void>(spawn(work(1), streams)); }).empty()) {
                }
            });
            std::jthread breaking([&] { short_lived.first.works.fault("broken"); });
            std::jthread awaiting([&] {
                for (unsigned i = 0; i < 3; ++i) {
                    const std::string failure = failure_of([&] { sync_wait(value_of(std::move(futures[i]))); });
                    EXPECT_TRUE(failure.empty() || failure == told) << failure;
                }
            });
            for (unsigned i = 3; i < 6; ++i) {
                const std::string failure = failure_of(std::move(futures[i]));
                EXPECT_TRUE(failure.empty() || failure == told) << failure;
            }
        }
        ASSERT_TRUE(short_lived.on.is_poisoned());
    }
}

TEST_F(fault_waiters, the_last_reference_to_a_runtime_may_be_dropped_by_a_waiter_that_receives_the_fault) {
    for (int round = 0; round < 100; ++round) {
        auto last = std::make_unique<faulty_runtime>();
        faulty_device& broken = last->first;
        auto streams = std::make_unique<round_robin>(last->on, 2);
        broken.works.hold();
        auto future = spawn(work(1), *streams);
        streams.reset();
        auto waiting = spawn(drop_after(std::move(last), std::move(future)), here());
        broken.works.fault("broken");
        ASSERT_EQ(std::move(waiting).get(), told);
    }
}

TEST_F(fault_waiters, the_last_reference_to_a_runtime_may_be_dropped_while_its_streams_are_watched) {
    for (int round = 0; round < 200; ++round) {
        auto last = std::make_unique<faulty_runtime>();
        auto streams = std::make_unique<single_stream>(last->on);
        machine& works = last->first.works;
        works.hold();
        auto future = spawn(work(1), *streams);
        auto polled = std::make_optional(spawn(work(2), *streams));
        streams.reset();
        auto waiting = spawn(drop_after(std::move(last), std::move(future)), here());
        works.release();
        static_cast<void>(polled->wait_for(0s));  // completes waiters of that stream on this thread
        polled.reset();
        ASSERT_EQ(std::move(waiting).get(), "");
    }
}

}  // namespace sluice::faults::fault_waiter_tests
