// SPDX-License-Identifier: Apache-2.0
// Futures awaited in coroutines: what they give, and where the coroutine continues.
#include <chrono>
#include <optional>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "support/million.hpp"

namespace sluice::conformance::await_tests {
namespace {

using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
constexpr std::size_t size = 200;

class awaits : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start)
            .and_then([rounds = slow()](auto x) { return step(std::move(x), 4, rounds); })
            .and_then(download);
    }

    awaits() { sync(zip(work(0), work(1), work(2)), pool); }  // loads the kernels

    round_robin pool{on, 2};
    stream a = pool.next();
    stream b = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, awaits, testing::ValuesIn(enrolled_backends()), backend_name);

// Submits the next step on the thread where the step before has ended.
task<numbers> step_by_step(scheduling_policy& pool, unsigned steps) {
    auto start = spawn(full<unsigned>({size}, 1), pool);
    tensor<unsigned> x = co_await std::move(start);
    for (unsigned i = 0; i < steps; ++i) {
        auto next = spawn(step(std::move(x), i), pool);
        x = co_await std::move(next);
    }
    auto last = spawn(download(std::move(x)), pool);
    co_return co_await std::move(last);
}

task<unsigned> sum_of_many(scheduling_policy& pool, unsigned count) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) {
        auto future = spawn(value(i), pool);
        sum += co_await std::move(future);
    }
    co_return sum;
}

task<unsigned> sum_of_many_staged(scheduling_policy& pool, unsigned count) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) {
        auto future = spawn(value(i).or_else([](std::exception_ptr) { return value(0u); }), pool);
        sum += co_await std::move(future);
    }
    co_return sum;
}

task<std::thread::id> thread_after_going_to(device_future<std::tuple<>> future, executor& target) {
    auto elsewhere = std::move(future).resume_on(target);
    co_await std::move(elsewhere);
    co_return std::this_thread::get_id();
}

}  // namespace

TEST_P(awaits, a_coroutine_gets_the_value) {
    EXPECT_EQ(sync_wait(value_of(spawn(work(1), pool))), numbers(size, 7));
    EXPECT_EQ(sync_wait(spawn(work(2), pool)), numbers(size, 10));
}

TEST_P(awaits, several_outputs_are_given_as_a_tuple_with_pending_values_opened) {
    auto [downloaded, plain, handle] = sync_wait(value_of(spawn(zip(work(1), value(5), full<unsigned>({3}, 1)), pool)));
    EXPECT_EQ(downloaded, numbers(size, 7));
    EXPECT_EQ(plain, 5);
    EXPECT_EQ(contents(std::move(handle), a), numbers(3, 1));
}

TEST_P(awaits, what_a_host_call_throws_is_thrown_in_the_coroutine) {
    EXPECT_EQ(failure_of([&] { sync_wait(value_of(spawn(failing("mine"), pool))); }), "mine");
    EXPECT_EQ(failure_of([&] { sync_wait(value_of(spawn(zip(work(1), failing_number("mine")), pool))); }), "mine");
    EXPECT_EQ(sync_wait(value_of(spawn(work(1), pool))), numbers(size, 7));
}

TEST_P(awaits, what_a_host_call_throws_is_thrown_in_a_coroutine_that_was_suspended) {
    NEEDS_A_GATE();
    gate held(a);
    auto waiting = spawn(value_of(spawn_on(a, failing("mine"))), here());
    held.open();
    EXPECT_EQ(failure_of(std::move(waiting)), "mine");
}

TEST_P(awaits, a_coroutine_is_not_suspended_for_what_is_complete_already) {
    auto future = spawn(work(1), pool);
    future.wait();
    EXPECT_TRUE(future.is_ready());
    std::atomic<bool> resumed = false;
    const auto coroutine = note_after(std::move(future), resumed);
    EXPECT_TRUE(resumed);
    EXPECT_EQ(sync_wait(thread_after(spawn(value(1), pool))), std::this_thread::get_id());
}

TEST_P(awaits, a_coroutine_continues_on_the_completion_thread) {
    NEEDS_A_GATE();
    std::thread::id worker;
    gate held(a);
    auto first = spawn(thread_after(spawn_on(a, host_call([&] { worker = std::this_thread::get_id(); }))), here());
    auto second = spawn(thread_after(spawn_on(a, work(1))), here());
    EXPECT_FALSE(first.is_ready());
    held.open();
    const auto one = std::move(first).get();
    EXPECT_EQ(one, std::move(second).get());
    EXPECT_NE(one, std::this_thread::get_id());
    EXPECT_NE(one, worker);
}

TEST_P(awaits, a_coroutine_continues_on_the_executor_that_it_chooses) {
    NEEDS_A_GATE();
    run_loop loop;
    gate held(a);
    auto waiting = spawn(thread_after_going_to(spawn_on(a, host_call([] {})), loop), here());
    EXPECT_EQ(loop.run_pending(), 0u);
    held.open();
    wait_until_waiters_are_woken(a);
    EXPECT_FALSE(waiting.is_ready());
    EXPECT_EQ(loop.run_pending(), 1u);
    ASSERT_TRUE(waiting.is_ready());
    EXPECT_EQ(std::move(waiting).get(), std::this_thread::get_id());
}

TEST_P(awaits, a_coroutine_continues_in_a_thread_pool) {
    thread_pool threads(2);
    for (int i = 0; i < 50; ++i) {
        auto future = spawn(host_call([] {}), pool);
        sync_wait(thread_after_going_to(std::move(future), threads));
    }
}

TEST_P(awaits, a_future_is_awaited_once) {
    auto future = spawn(value(1), pool);
    EXPECT_EQ(sync_wait(std::move(future)), 1);
    EXPECT_FALSE(future.valid());
    expect_refused(errc::invalid_argument, {"once"}, [&] { sync_wait(std::move(future)); });
}

TEST_P(awaits, a_thousand_are_in_flight) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    std::optional<gate> held;
    if (on.kind() == device_kind::cpu) held.emplace(a);  // a GPU's queue is short
    std::vector<task<unsigned>> waiting;
    const unsigned count = max_queued_after_gate(1000);
    for (unsigned i = 0; i < count; ++i) waiting.push_back(value_of(spawn(host_call([i] { return i; }), pool)));
    auto all = spawn(when_all(std::move(waiting)), here());
    EXPECT_FALSE(held.has_value() && all.is_ready());
    held.reset();
    const std::vector<unsigned> got = std::move(all).get();
    for (unsigned i = 0; i < count; ++i) ASSERT_EQ(got[i], i);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(awaits, when_all_takes_futures) {
    auto [first, second, third] =
        sync_wait(when_all(spawn(work(1), pool), spawn(value(2), pool), spawn(work(3), pool)));
    EXPECT_EQ(first, numbers(size, 7));
    EXPECT_EQ(second, 2);
    EXPECT_EQ(third, numbers(size, 13));
    EXPECT_EQ(failure_of([&] { sync_wait(when_all(spawn(work(1), pool), spawn(failing("mine"), pool))); }), "mine");
}

TEST_P(awaits, when_any_takes_futures) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    const std::size_t before = bytes_in_use();
    gate held(a);
    auto either = when_any(spawn_on(a, work(1)), spawn_on(b, work(2)));
    const auto [index, either_value] = sync_wait(std::move(either));
    ASSERT_EQ(index, 1u);
    EXPECT_EQ(std::get<1>(either_value), numbers(size, 10));
    held.open();  // the other result is dropped when it arrives
    wait_until_waiters_are_woken(a);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(awaits, a_loop_over_what_is_complete_needs_no_stack) {
    constexpr unsigned count = test_support::million / 10;
    EXPECT_EQ(sync_wait(sum_of_many(pool, count)), static_cast<unsigned>(std::uint64_t{count} * (count - 1) / 2));
    EXPECT_EQ(sync_wait(sum_of_many_staged(pool, count)),
              static_cast<unsigned>(std::uint64_t{count} * (count - 1) / 2));
}

TEST_P(awaits, a_continuation_may_spawn_further_work) {
    constexpr unsigned steps = 60;
    auto first = spawn(step_by_step(pool, steps), here());
    auto second = spawn(step_by_step(pool, steps), here());
    EXPECT_EQ(std::move(first).get(), numbers(size, after_steps(1, steps)));
    EXPECT_EQ(std::move(second).get(), numbers(size, after_steps(1, steps)));
}

TEST_P(awaits, wait_for_returns_whether_the_future_is_complete) {
    NEEDS_A_GATE();
    gate held(a);
    auto future = spawn_on(a, work(1));
    EXPECT_FALSE(future.is_ready());
    EXPECT_FALSE(future.wait_for(0s));
    EXPECT_FALSE(future.wait_for(1ms));
    EXPECT_FALSE(future.wait_until(std::chrono::steady_clock::now() - 1s));
    held.open();
    EXPECT_TRUE(future.wait_for(1h));
    EXPECT_TRUE(future.wait_until(std::chrono::steady_clock::now() - 1s));
    EXPECT_TRUE(future.is_ready());
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(awaits, wait_for_is_true_for_a_failed_operation_and_get_throws) {
    auto future = spawn(failing("mine"), pool);
    EXPECT_TRUE(future.wait_for(1h));
    EXPECT_EQ(failure_of(std::move(future)), "mine");
}

TEST_P(awaits, several_threads_may_wait_for_one_future) {
    NEEDS_A_GATE();
    gate held(a);
    auto future = spawn_on(a, work(1));
    std::atomic<int> there = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i) threads.emplace_back([&] { there += future.wait_for(1h) ? 1 : 0; });
        EXPECT_FALSE(future.wait_for(1ms));
        held.open();
    }
    EXPECT_EQ(there, 3);
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(awaits, many_short_waits_miss_no_completion) {
    for (int i = 0; i < 100; ++i) {
        auto future = spawn(work(1), pool);
        while (!future.wait_for(1us)) {
        }
        ASSERT_TRUE(future.is_ready());
        ASSERT_EQ(std::move(future).get(), numbers(size, 7));
    }
}

}  // namespace sluice::conformance::await_tests
