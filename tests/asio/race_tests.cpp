// SPDX-License-Identifier: Apache-2.0
// Many waits at the same time, with completions, cancellations and destruction at the same time. For the thread
// sanitizer.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::race_tests {
namespace {

ASIO_SUITE(asio_races);

// Yields in every other round, so that each side is sometimes first.
void spin(int round, std::chrono::nanoseconds at_least) {
    const auto until = std::chrono::steady_clock::now() + at_least;
    while (std::chrono::steady_clock::now() < until) {
        if (round % 2 == 0) std::this_thread::yield();
    }
}

// Roughly how long a wait takes here, from its start to its handler.
std::chrono::nanoseconds one_wait(scheduling_policy& pool) {
    net::io_context context;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) {
        async_run(host_call([] {}), pool, net::bind_executor(context, [](std::exception_ptr) {}));
        context.run();
        context.restart();
    }
    return (std::chrono::steady_clock::now() - begin) / 20;
}

}  // namespace

TEST_P(asio_races, a_thousand_waits_each_call_their_handler_once) {
    constexpr unsigned count = 1000;
    round_robin streams(on, 4);
    std::vector<std::atomic<int>> calls(count);
    std::atomic<int> wrong = 0;
    for (unsigned i = 0; i < count; ++i) {
        auto handler = [&, i](std::exception_ptr failure, unsigned value) {
            ++calls[i];
            if (failure || value != i) ++wrong;
        };
        async_run(host_call([i] { return i; }), streams, on_context(std::move(handler)));
    }
    {
        std::jthread other([&] { context.run(); });
        context.run();
    }
    EXPECT_EQ(wrong, 0);
    for (const auto& each : calls) EXPECT_EQ(each, 1);
}

// The signal arrives before, at the time of, and after the completion: the pause between them covers that range.
TEST_P(asio_races, a_wait_that_is_canceled_while_it_completes_calls_its_handler_once_with_the_true_result) {
    constexpr int rounds = 2000;
    auto sweep = 2 * one_wait(pool);
    const std::size_t before = bytes_in_use();
    int values = 0, canceled = 0, all = 0;
    // On a busy machine the wait may take longer than it did above: then later rounds wait longer before they cancel.
    for (; all < rounds || ((values == 0 || canceled == 0) && all < 10 * rounds); ++all) {
        const int i = all;
        if (i != 0 && i % rounds == 0) sweep *= 2;
        net::cancellation_signal signal;
        received<int> result;
        async_run(host_call([] { return 7; }), pool,
                  net::bind_cancellation_slot(signal.slot(), on_context(result.handler())));
        spin(i, sweep * (i / 2 % 100) / 100);
        signal.emit(net::cancellation_type::terminal);
        context.run();
        context.restart();
        ASSERT_EQ(result.calls, 1);
        if (is_aborted(result.failure)) {
            ++canceled;
        } else {
            ASSERT_EQ(result.value, 7);
            ++values;
        }
    }
    EXPECT_GT(canceled, 0);
    EXPECT_GT(values, 0);
    EXPECT_EQ(values + canceled, all);
    RecordProperty("canceled", canceled);
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(asio_races, host_driven_work_that_is_canceled_while_it_completes_calls_its_handler_once) {
    constexpr int rounds = 500;
    const auto sweep = 3 * one_wait(pool);
    for (int i = 0; i < rounds; ++i) {
        net::cancellation_signal signal;
        received<unsigned> result;
        auto recovering = failing_number("mine").or_else([](std::exception_ptr) { return value(8u); });
        async_run(std::move(recovering), pool,
                  net::bind_cancellation_slot(signal.slot(), on_context(result.handler())));
        spin(i, sweep * (i / 2 % 100) / 100);
        signal.emit(net::cancellation_type::terminal);
        context.run();
        context.restart();
        ASSERT_EQ(result.calls, 1);
        ASSERT_TRUE(is_aborted(result.failure) || result.value == 8u) << text_of(result.failure);
    }
    on.synchronize();
}

TEST_P(asio_races, a_context_may_be_dropped_while_its_waits_complete) {
    const auto sweep = 10 * one_wait(pool);
    std::atomic<int> alive = 0;
    for (int i = 0; i < 300; ++i) {
        auto brief = std::make_unique<net::io_context>();
        std::optional strand(net::make_strand(*brief));
        for (unsigned j = 0; j < 10; ++j) {
            ++alive;
            const std::shared_ptr<std::atomic<int>> counted(&alive, [](std::atomic<int>* count) { --*count; });
            auto handler = [counted](std::exception_ptr) { ADD_FAILURE() << "no thread runs the context"; };
            if (j % 2 == 0) {
                async_run(host_call([] {}), pool, net::bind_executor(*brief, std::move(handler)));
            } else {
                async_run(host_call([] {}), pool, net::bind_executor(*strand, std::move(handler)));
            }
        }
        spin(i, sweep * (i / 2 % 50) / 50);
        strand.reset();  // a strand must not outlive its context
        brief.reset();
    }
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(alive, 0);
}

TEST_P(asio_races, waits_begin_and_end_on_many_threads) {
    std::atomic<int> calls = 0;
    {
        auto guard = net::make_work_guard(context);
        std::vector<std::jthread> running, beginning;
        for (int i = 0; i < 2; ++i) running.emplace_back([&] { context.run(); });
        for (int i = 0; i < 3; ++i) {
            beginning.emplace_back([&] {
                single_stream own(on);
                for (unsigned j = 0; j < 200; ++j) {
                    async_run(host_call([] {}), own, on_context([&](std::exception_ptr failure) {
                                  if (!failure) ++calls;
                              }));
                }
            });
        }
        beginning.clear();
        guard.reset();
    }
    EXPECT_EQ(calls, 600);
}

}  // namespace sluice::conformance::race_tests
