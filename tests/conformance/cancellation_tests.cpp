// SPDX-License-Identifier: Apache-2.0
// timeout, timeout_at and stop_when: the waiter receives the error at once, and no part of the operation continues
// afterwards.
#include <chrono>
#include <optional>
#include <stop_token>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::cancellation_tests {
namespace {

using numbers = std::vector<unsigned>;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
constexpr std::size_t size = 200;

class cancellation : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start)
            .and_then([rounds = slow()](auto x) { return step(std::move(x), 4, rounds); })
            .and_then(download);
    }

    cancellation() { sync(zip(work(0), work(1)), pool); }  // loads the kernels

    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, cancellation, testing::ValuesIn(enrolled_backends()), backend_name);

template <typename Function>
void expect_timed_out(Function&& call) {
    expect_refused(errc::timed_out, {"abandoned"}, std::forward<Function>(call));
}
template <typename Function>
void expect_canceled(Function&& call) {
    expect_refused(errc::canceled, {"abandoned"}, std::forward<Function>(call));
}

task<std::thread::id> thread_after_canceled(spawned<numbers> future) {
    try {
        co_await std::move(future);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::canceled);
    }
    co_return std::this_thread::get_id();
}

}  // namespace

TEST_P(cancellation, a_timeout_may_be_infinite) {
    EXPECT_EQ(sync(timeout(work(1), std::chrono::hours::max()), pool), numbers(size, 7));
    EXPECT_EQ(spawn(timeout(work(2), clock::duration::max()), pool).get(), numbers(size, 10));
    EXPECT_EQ(sync(timeout(work(3), std::chrono::duration<double>::max()), pool), numbers(size, 13));
    EXPECT_EQ(sync(timeout_at(work(4), clock::time_point::max()), pool), numbers(size, 16));
}

TEST_P(cancellation, a_negative_timeout_has_expired_already) {
    const ticket before = home.issued();
    expect_timed_out([&] { sync(timeout(work(1), std::chrono::hours::min()), pool); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(cancellation, a_deadline_that_has_passed_submits_nothing) {
    const ticket before = home.issued();
    bool called = false;
    const auto never = [&] { return with_context([&](execution_context&) { return called = true, work(1); }); };
    expect_timed_out([&] { sync(timeout_at(never(), clock::now()), pool); });
    expect_timed_out([&] { spawn(timeout_at(never(), clock::now() - 1h), pool).get(); });
    expect_timed_out([&] { sync(timeout(never(), 0s), pool); });
    expect_timed_out([&] { sync(timeout(never(), -1ms), pool); });
    EXPECT_FALSE(called);
    EXPECT_EQ(home.issued(), before);
}

TEST_P(cancellation, a_deadline_that_expires_while_the_stream_is_held_is_reported_at_once) {
    NEEDS_A_GATE();
    on.synchronize();
    const std::size_t before = bytes_in_use();
    gate held(home);
    auto future = spawn(timeout(work(1), 1ms), pool);
    expect_timed_out([&] { std::move(future).get(); });
    EXPECT_EQ(bytes_in_use(), before);  // the next user of that memory is ordered after the device's writes
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(sync(work(2), pool), numbers(size, 10));
}

TEST_P(cancellation, an_operation_that_completes_in_time_gives_its_value) {
    EXPECT_EQ(sync(timeout(work(1), 1h), pool), numbers(size, 7));
    EXPECT_EQ(spawn(timeout_at(work(2), clock::now() + 1h), pool).get(), numbers(size, 10));
    EXPECT_EQ(sync(timeout_at(work(2), clock::time_point::max()), pool), numbers(size, 10));
    EXPECT_EQ(sync(stop_when(work(1), std::stop_token()), pool), numbers(size, 7));
}

TEST_P(cancellation, a_failure_before_the_deadline_is_reported) {
    EXPECT_EQ(failure_of(spawn(timeout(failing("mine"), 1h), pool)), "mine");
    std::stop_source source;
    EXPECT_EQ(failure_of([&] { sync(stop_when(failing("mine"), source.get_token()), pool); }), "mine");
}

TEST_P(cancellation, a_stop_requested_before_submits_nothing) {
    const ticket before = home.issued();
    std::stop_source source;
    source.request_stop();
    expect_canceled([&] { sync(stop_when(work(1), source.get_token()), pool); });
    expect_canceled([&] { spawn(stop_when(work(1), source.get_token()), pool).get(); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(cancellation, a_stop_requested_in_flight_is_reported_at_once_and_on_the_completion_thread) {
    NEEDS_A_GATE();
    on.synchronize();
    const std::size_t before = bytes_in_use();
    std::stop_source source;
    gate held(home);
    auto waiting = spawn(thread_after_canceled(spawn(stop_when(work(1), source.get_token()), pool)), here());
    EXPECT_FALSE(waiting.is_ready());
    source.request_stop();
    EXPECT_NE(std::move(waiting).get(), std::this_thread::get_id());
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(cancellation, a_stop_requested_afterwards_has_no_effect) {
    std::stop_source source;
    auto future = spawn(stop_when(work(1), source.get_token()), pool);
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
    source.request_stop();
    auto complete = spawn(stop_when(work(2), std::stop_source().get_token()), pool);
    EXPECT_EQ(std::move(complete).get(), numbers(size, 10));
}

TEST_P(cancellation, one_stop_ends_many_operations) {
    NEEDS_A_GATE();
    std::stop_source source;
    gate held(home);
    std::vector<spawned<numbers>> all;
    for (int i = 0; i < 50; ++i) all.push_back(spawn(stop_when(work(1), source.get_token()), pool));
    source.request_stop();
    for (auto& each : all) expect_canceled([&] { std::move(each).get(); });
}

TEST_P(cancellation, nothing_is_retried_after_a_stop) {
    NEEDS_A_GATE();
    std::stop_source source;
    std::atomic<int> made = 0, asked = 0;
    gate held(home);
    auto attempts =
        retry(1000, [&] { return ++made, failing("mine"); }, [&](const std::exception_ptr&) { return ++asked, true; });
    auto future = spawn(stop_when(std::move(attempts), source.get_token()), pool);
    source.request_stop();
    expect_canceled([&] { std::move(future).get(); });
    const ticket issued = home.issued();
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(asked, 0);
    EXPECT_EQ(home.issued(), issued + 2);  // the two commands of wait_until_waiters_are_woken
}

TEST_P(cancellation, no_function_of_the_user_is_called_after_a_stop) {
    NEEDS_A_GATE();
    std::stop_source source;
    std::atomic<int> called = 0;
    const auto recover = [&](std::exception_ptr) { return ++called, value(0u); };
    gate held(home);
    auto recovering = spawn(stop_when(failing_number("mine").or_else(recover), source.get_token()), pool);
    auto chained = spawn(stop_when(host_call([] { return 1u; }).or_else(recover).and_then([&](auto x) {
                             return ++called, value(std::move(x));
                         }),
                                   source.get_token()),
                         pool);
    auto mapped = spawn(stop_when(host_call([] { return 1u; }).or_else(recover).transform([&](auto x) {
                            return ++called, std::move(x);
                        }),
                                  source.get_token()),
                        pool);
    source.request_stop();
    expect_canceled([&] { std::move(recovering).get(); });
    expect_canceled([&] { std::move(chained).get(); });
    expect_canceled([&] { std::move(mapped).get(); });
    held.open();
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(called, 0);
}

TEST_P(cancellation, a_timeout_can_be_recovered_while_the_stream_is_still_held) {
    NEEDS_A_GATE();
    gate held(home);
    auto future = spawn(timeout(work(1), 1ms).or_else([](std::exception_ptr) { return value(numbers(1, 1)); }), pool);
    EXPECT_EQ(std::move(future).get(), numbers(1, 1));
    int made = 0;
    auto again = retry(3, [&] { return ++made, timeout(work(1), 1ms); });
    expect_timed_out([&] { sync(std::move(again), pool); });
    EXPECT_EQ(made, 3);
}

TEST_P(cancellation, the_earliest_of_nested_deadlines_counts) {
    NEEDS_A_GATE();
    gate held(home);
    expect_timed_out([&] { sync(timeout(timeout(work(1), 1h), 1ms), pool); });
    expect_timed_out([&] { sync(timeout(timeout(work(1), 1ms), 1h), pool); });
    std::stop_source source;
    auto stopped = spawn(timeout(stop_when(work(1), source.get_token()), 1h), pool);
    source.request_stop();
    expect_canceled([&] { std::move(stopped).get(); });
}

TEST_P(cancellation, one_part_of_a_zip_may_time_out) {
    NEEDS_A_GATE();
    signal recovered;
    gate held(home);
    auto given_up = timeout(work(1), 1ms).or_else([&](std::exception_ptr) {
        recovered.give();
        return value(numbers(1, 1));
    });
    auto future = spawn(zip(std::move(given_up), work(2)), pool);
    recovered.wait();
    EXPECT_FALSE(future.is_ready());
    held.open();
    const auto [first, second] = std::move(future).get();
    EXPECT_EQ(first, numbers(1, 1));
    EXPECT_EQ(second, numbers(size, 10));
}

TEST_P(cancellation, a_runtime_may_be_dropped_long_before_the_deadline) {
    auto short_lived = std::make_unique<runtime>(GetParam().options);
    auto streams = std::make_unique<single_stream>(short_lived->find(GetParam().device));
    auto future = spawn(timeout(work(1), 1h), *streams);
    streams.reset();
    short_lived.reset();
    EXPECT_EQ(std::move(future).get(), numbers(size, 7));
}

TEST_P(cancellation, deadline_and_completion_may_coincide) {
    const std::size_t before = bytes_in_use();
    int done = 0;
    for (int i = 0; i < 300; ++i) {
        auto future = spawn(timeout(work(1), std::chrono::microseconds(i)), pool);
        try {
            EXPECT_EQ(std::move(future).get(), numbers(size, 7));
            ++done;
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::timed_out);
        }
    }
    EXPECT_GE(done, 0);
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(cancellation, stop_and_completion_may_coincide) {
    const std::size_t before = bytes_in_use();
    for (int i = 0; i < 300; ++i) {
        std::stop_source source;
        std::jthread stopping([&] { source.request_stop(); });
        try {
            EXPECT_EQ(spawn(stop_when(work(1), source.get_token()), pool).get(), numbers(size, 7));
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::canceled);
        }
    }
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
}

}  // namespace sluice::conformance::cancellation_tests
