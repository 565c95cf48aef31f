// SPDX-License-Identifier: Apache-2.0
// Waiting in Asio's coroutines, and with other operations of Asio's at the same time.
//
// (Coroutines are functions with parameters, not lambdas with captures: g++ 12, see CONTRIBUTING.md.)
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::coroutine_tests {
namespace {

using namespace std::chrono_literals;
using namespace net::experimental::awaitable_operators;

class asio_coroutines : public asio_test {
protected:
    // Runs the coroutine to its end on this thread; throws what it threw.
    template <typename T>
    T run(net::awaitable<T> body) {
        std::optional<T> result;
        std::exception_ptr failure;
        net::co_spawn(context, std::move(body), [&](std::exception_ptr what, T value) {
            failure = what;
            result.emplace(std::move(value));
        });
        context.run();
        if (failure) std::rethrow_exception(failure);
        return std::move(result.value());
    }
};
INSTANTIATE_TEST_SUITE_P(, asio_coroutines, testing::ValuesIn(enrolled_backends()), backend_name);

template <typename Future>
net::awaitable<typename Future::value_type> awaited(Future future) {
    co_return co_await async_wait(std::move(future), net::use_awaitable);
}

template <typename Op>
net::awaitable<unsigned> sum_of(Op op, scheduling_policy& pool) {
    const numbers values = co_await async_run(std::move(op), pool, net::use_awaitable);
    unsigned sum = 0;
    for (const unsigned each : values) sum += each;
    co_return sum;
}

template <typename Op>
net::awaitable<std::size_t> both(Op op, scheduling_policy& pool) {
    auto pair = zip(std::move(op), host_call([] { return std::size_t{3}; }));
    auto [values, number] = co_await async_run(std::move(pair), pool, net::use_awaitable);
    co_return values.size() + number;
}

net::awaitable<std::thread::id> thread_of_coroutine(device_future<pending<numbers>> future) {
    co_await async_wait(std::move(future), net::use_awaitable);
    co_return std::this_thread::get_id();
}

net::awaitable<std::string> failure_as_value(scheduling_policy& pool) {
    auto [failure, number] = co_await async_run(failing_number("mine"), pool, net::as_tuple(net::use_awaitable));
    co_return text_of(failure);
}

// 0: the work was first; 1: the timer.
net::awaitable<std::size_t> race(device_future<pending<numbers>> future, std::chrono::milliseconds at_most) {
    net::steady_timer timer(co_await net::this_coro::executor, at_most);
    const auto first =
        co_await (async_wait(std::move(future), net::use_awaitable) || timer.async_wait(net::use_awaitable));
    co_return first.index();
}

net::awaitable<numbers> one_after_all(device_future<pending<numbers>> first, spawned<numbers> second) {
    auto [a, b] = co_await (async_wait(std::move(first), net::use_awaitable) &&
                            async_wait(std::move(second), net::use_awaitable));
    a.insert(a.end(), b.begin(), b.end());
    co_return std::move(a);
}

}  // namespace

TEST_P(asio_coroutines, a_coroutine_awaits_a_future) { EXPECT_EQ(run(awaited(spawn(work(1), pool))), combined(1)); }

TEST_P(asio_coroutines, a_coroutine_awaits_an_operation) { EXPECT_EQ(run(sum_of(work(2), pool)), 400u); }

TEST_P(asio_coroutines, several_values_are_given_as_a_tuple) { EXPECT_EQ(run(both(work(2), pool)), 203u); }

TEST_P(asio_coroutines, a_coroutine_continues_on_its_own_executor) {
    EXPECT_EQ(run(thread_of_coroutine(spawn(work(1), pool))), std::this_thread::get_id());
}

TEST_P(asio_coroutines, a_failure_is_thrown_into_the_coroutine) {
    EXPECT_EQ(failure_of([&] { run(awaited(spawn(failing_number("mine"), pool))); }), "mine");
    context.restart();
    EXPECT_EQ(run(failure_as_value(pool)), "mine");
}

TEST_P(asio_coroutines, work_that_is_first_beats_a_timer) { EXPECT_EQ(run(race(spawn(work(1), pool), 1h)), 0u); }

TEST_P(asio_coroutines, a_timer_that_is_first_beats_work_which_is_abandoned) {
    NEEDS_A_GATE();
    on.synchronize();
    const std::size_t before = bytes_in_use();
    gate held(home);
    EXPECT_EQ(run(race(spawn(work(1), pool), 1ms)), 1u);
    EXPECT_EQ(bytes_in_use(), before);
    held.open();
    wait_until_waiters_are_woken(home);
}

TEST_P(asio_coroutines, a_future_and_a_spawned_task_are_awaited_together) {
    auto task = spawn(value_of(spawn(work(2), pool)), here());
    numbers expected = combined(1);
    expected.resize(400, 2);
    EXPECT_EQ(run(one_after_all(spawn(work(1), pool), std::move(task))), expected);
}

TEST_P(asio_coroutines, a_parallel_group_waits_for_one_and_cancels_the_others) {
    NEEDS_A_GATE();
    gate held(home);
    std::array<std::size_t, 2> order = {};
    std::exception_ptr held_up, fine;
    int calls = 0;
    net::experimental::make_parallel_group(async_run(work(1), pool, net::deferred),
                                           async_wait(spawn(value_of(spawn(work(2), pool)), here()), net::deferred),
                                           net::steady_timer(context, 1ms).async_wait(net::deferred))
        .async_wait(net::experimental::wait_for_one(),
                    on_context([&](auto finished, std::exception_ptr first, numbers, std::exception_ptr second, numbers,
                                   boost::system::error_code) {
                        ++calls;
                        order = {finished[0], finished[1]};
                        held_up = first;
                        fine = second;
                    }));
    context.run();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(order[0], 2u);
    EXPECT_TRUE(is_aborted(held_up));
    EXPECT_TRUE(is_aborted(fine));
}

TEST_P(asio_coroutines, a_canceled_coroutine_gets_the_error_where_it_waits) {
    NEEDS_A_GATE();
    net::cancellation_signal signal;
    std::exception_ptr failure;
    gate held(home);
    net::co_spawn(context, awaited(spawn(work(1), pool)),
                  net::bind_cancellation_slot(signal.slot(),
                                              on_context([&](std::exception_ptr what, numbers) { failure = what; })));
    context.poll();
    signal.emit(net::cancellation_type::terminal);
    context.run();
    EXPECT_TRUE(is_aborted(failure)) << text_of(failure);
}

}  // namespace sluice::conformance::coroutine_tests
