// SPDX-License-Identifier: Apache-2.0
// Completion tokens other than plain callbacks. (Coroutines: coroutine_tests.cpp.)
#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_future.hpp>

#include "asio/support/asio_test.hpp"

namespace sluice::conformance::token_tests {
namespace {
ASIO_SUITE(asio_tokens);
}

TEST_P(asio_tokens, use_future_gives_a_standard_future) {
    std::future<numbers> value = async_run(work(1), pool, net::use_future);
    std::future<void> nothing = async_wait(spawn(host_call([] {}), pool), net::use_future);
    std::future<unsigned> failure = async_run(failing_number("mine"), pool, net::use_future);
    EXPECT_EQ(value.get(), combined(1));
    nothing.get();
    EXPECT_EQ(failure_of([&] { failure.get(); }), "mine");
}

TEST_P(asio_tokens, deferred_submits_nothing_before_it_is_called) {
    const ticket before = home.issued();
    received<numbers> result;
    auto later = async_run(work(1), pool, net::deferred);
    EXPECT_EQ(home.issued(), before);
    std::move(later)(on_context(result.handler()));
    EXPECT_GT(home.issued(), before);
    context.run();
    EXPECT_EQ(result.value, combined(1));
}

TEST_P(asio_tokens, as_tuple_gives_the_exception_with_the_value) {
    int calls = 0;
    async_run(work(1), pool, net::as_tuple(on_context([&](std::tuple<std::exception_ptr, numbers> got) {
                  ++calls;
                  EXPECT_EQ(std::get<0>(got), nullptr);
                  EXPECT_EQ(std::get<1>(got), combined(1));
              })));
    async_run(failing_number("mine"), pool, net::as_tuple(on_context([&](std::tuple<std::exception_ptr, unsigned> got) {
                  ++calls;
                  EXPECT_EQ(text_of(std::get<0>(got)), "mine");
              })));
    context.run();
    EXPECT_EQ(calls, 2);
}

TEST_P(asio_tokens, detached_completes_too_and_no_thread_waits) {
    NEEDS_A_GATE();
    const std::size_t before = bytes_in_use();
    gate held(home);
    async_run(work(1), pool, net::bind_executor(context, net::detached));
    EXPECT_EQ(context.poll(), 0u);
    held.open();
    EXPECT_EQ(context.run(), 1u);
    wait_until_waiters_are_woken(home);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(asio_tokens, tokens_can_be_adapted) {
    int got = 0;
    async_run(work(1), pool,
              net::append(on_context([&](std::exception_ptr, numbers, int appended) { got = appended; }), 9));
    context.run();
    EXPECT_EQ(got, 9);
}

}  // namespace sluice::conformance::token_tests
