// SPDX-License-Identifier: Apache-2.0
// async_run(operation, policy, token): submits an operation to the policy's next stream and waits for it, as an
// asynchronous operation of Asio's. Everything about async_wait is true for it, too.
//
// The operation is submitted when the asynchronous operation is initiated: at once with a callback or use_future, when
// it is awaited with use_awaitable or deferred; on that thread. The policy must live until then. Exceptions of the
// submission reach the handler, too.
//
// Cancellation ends an operation that recovers, tries again or gives up: see async_wait.
//
// It costs what submitting the operation costs, and what async_wait costs.
#pragma once

#include "sluice/asio/async_wait.hpp"

namespace sluice {

namespace detail {
template <operation Op>
using signature_of_run = wait_signature<typename waited_run<Op>::result>;

struct initiate_run {
    template <typename Handler, typename Op>
    void operator()(Handler&& handler, Op op, scheduling_policy* policy) const {
        begin_wait<waited_run<Op>>(std::forward<Handler>(handler), std::move(op), *policy);
    }
};
}  // namespace detail

template <operation Op, boost::asio::completion_token_for<detail::signature_of_run<Op>> Token>
auto async_run(Op op, scheduling_policy& policy, Token&& token) {
    return boost::asio::async_initiate<Token, detail::signature_of_run<Op>>(detail::initiate_run{}, token,
                                                                            std::move(op), &policy);
}

}  // namespace sluice
