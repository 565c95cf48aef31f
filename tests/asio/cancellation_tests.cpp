// SPDX-License-Identifier: Apache-2.0
// Canceling a wait: before, while and after it completes. (At exactly the same time: race_tests.cpp.)
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <latch>
#include <thread>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::cancellation_tests {
namespace {

using namespace std::chrono_literals;

class asio_cancellation : public asio_test {
protected:
    template <typename Handler>
    auto cancelable(Handler handler) {
        return net::bind_cancellation_slot(signal.slot(), on_context(std::move(handler)));
    }

    net::cancellation_signal signal;
};
INSTANTIATE_TEST_SUITE_P(, asio_cancellation, testing::ValuesIn(enrolled_backends()), backend_name);

task<std::shared_ptr<int>> keep(device_future<std::tuple<>> until, std::shared_ptr<int> owned) {
    co_await std::move(until);
    co_return owned;
}

}  // namespace

TEST_P(asio_cancellation, a_canceled_wait_is_told_while_the_stream_is_still_held_and_frees_its_outputs) {
    NEEDS_A_GATE();
    for (const auto type : {net::cancellation_type::terminal, net::cancellation_type::partial}) {
        on.synchronize();
        const std::size_t before = bytes_in_use();
        received<numbers> result;
        gate held(home);
        async_wait(spawn(work(1), pool), cancelable(result.handler()));
        EXPECT_GT(bytes_in_use(), before);
        signal.emit(type);
        EXPECT_EQ(result.calls, 0);  // not inside emit
        EXPECT_EQ(context.run(), 1u);
        EXPECT_EQ(result.calls, 1);
        EXPECT_TRUE(is_aborted(result.failure)) << text_of(result.failure);
        EXPECT_EQ(result.value, numbers());
        EXPECT_EQ(bytes_in_use(), before);
        held.open();
        wait_until_waiters_are_woken(home);
        context.restart();
    }
    EXPECT_EQ(sync(work(2), pool), combined(2));
}

TEST_P(asio_cancellation, a_total_cancellation_is_not_offered) {
    NEEDS_A_GATE();
    received<numbers> result;
    gate held(home);
    async_wait(spawn(work(1), pool), cancelable(result.handler()));
    signal.emit(net::cancellation_type::total);
    signal.emit(net::cancellation_type::none);
    EXPECT_EQ(context.poll(), 0u);
    held.open();
    context.run();
    EXPECT_EQ(result.value, combined(1));
}

TEST_P(asio_cancellation, the_handler_of_a_canceled_run_is_called_when_its_functions_have_ended) {
    std::latch is_running(1);
    std::atomic<bool> is_inside = false;
    std::atomic<int> calls = 0;
    auto attempts = retry(1'000'000'000, [&] {
        is_inside = true;
        if (++calls == 2) is_running.count_down();
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        is_inside = false;
        return failing_number("mine");
    });
    received<unsigned> result;
    async_run(std::move(attempts), pool, cancelable(result.handler()));
    is_running.wait();
    signal.emit(net::cancellation_type::terminal);  // waits for the function
    context.run();
    EXPECT_FALSE(is_inside);
    EXPECT_TRUE(is_aborted(result.failure)) << text_of(result.failure);
    const int then = calls;
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(calls, then);
}

TEST_P(asio_cancellation, a_cancellation_after_the_completion_changes_nothing) {
    received<numbers> result;
    async_wait(spawn(work(1), pool), cancelable(result.handler()));
    wait_until_waiters_are_woken(home);  // it is queued by now
    signal.emit(net::cancellation_type::all);
    context.run();
    EXPECT_EQ(text_of(result.failure), "");
    EXPECT_EQ(result.value, combined(1));
}

TEST_P(asio_cancellation, the_slot_is_free_again_when_the_handler_is_called) {
    NEEDS_A_GATE();
    bool had_handler = true;
    async_wait(spawn(work(1), pool),
               cancelable([&](std::exception_ptr, numbers) { had_handler = signal.slot().has_handler(); }));
    EXPECT_TRUE(signal.slot().has_handler());
    context.run();
    EXPECT_FALSE(had_handler);
    signal.emit(net::cancellation_type::terminal);  // no wait has started
    received<numbers> next;
    gate held(home);
    async_wait(spawn(work(2), pool), cancelable(next.handler()));
    signal.emit(net::cancellation_type::terminal);
    signal.emit(net::cancellation_type::terminal);
    context.restart();
    context.run();
    EXPECT_EQ(next.calls, 1);
    EXPECT_TRUE(is_aborted(next.failure));
}

TEST_P(asio_cancellation, a_signal_before_the_wait_begins_is_not_remembered) {
    received<numbers> result;
    signal.emit(net::cancellation_type::terminal);
    async_wait(spawn(work(1), pool), cancelable(result.handler()));
    context.run();
    EXPECT_EQ(result.value, combined(1));
}

TEST_P(asio_cancellation, a_canceled_run_makes_no_further_attempt) {
    NEEDS_A_GATE();
    std::atomic<int> made = 0;
    received<unsigned> result;
    gate held(home);
    auto attempts = retry(1000, [&] { return ++made, failing_number("mine"); });
    async_run(std::move(attempts), pool, cancelable(result.handler()));
    signal.emit(net::cancellation_type::terminal);
    context.run();
    EXPECT_TRUE(is_aborted(result.failure)) << text_of(result.failure);
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(made, 1);
}

TEST_P(asio_cancellation, a_task_continues_when_its_wait_is_canceled_and_its_result_is_dropped) {
    NEEDS_A_GATE();
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    received<std::shared_ptr<int>> result;
    gate held(home);
    auto body = keep(spawn(host_call([] {}), pool), std::move(owned));
    async_wait(spawn(std::move(body), here()), cancelable(result.handler()));
    signal.emit(net::cancellation_type::terminal);
    context.run();
    EXPECT_TRUE(is_aborted(result.failure));
    EXPECT_FALSE(watch.expired());
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_TRUE(watch.expired());
}

TEST_P(asio_cancellation, an_operation_that_was_stopped_otherwise_gives_its_own_error) {
    NEEDS_A_GATE();
    std::stop_source source;
    received<numbers> result;
    gate held(home);
    async_run(stop_when(work(1), source.get_token()), pool, cancelable(result.handler()));
    source.request_stop();
    context.run();
    EXPECT_EQ(code_of(result.failure), errc::canceled);
}

}  // namespace sluice::conformance::cancellation_tests
