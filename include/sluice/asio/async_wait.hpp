// SPDX-License-Identifier: Apache-2.0
// async_wait(future, token): waits for a device_future, a spawned task, or anything else that Sluice can await, as an
// asynchronous operation of Asio's.
//
// Signature: void(std::exception_ptr, T); for a tuple void(std::exception_ptr, Ts...), for nothing
// void(std::exception_ptr). The exception is what get() would throw. For the values then, see wait_arguments.hpp.
//
// Executor: the handler is posted to its associated executor. It is never called inside async_wait, and never on the
// library's completion thread. A download's contents are copied there, too. Without an associated executor a handler
// runs on Asio's system executor; use bind_executor(...). Until the call the executor has work. The associated
// allocator is used, and its memory deallocated before the handler is called.
//
// Cancellation: terminal and partial. The handler soon gets boost::system::system_error with operation_aborted. Work
// that a device has begun cannot be stopped: it is abandoned, its outputs are dropped, and their memory is reused after
// it. An operation that recovers, tries again or gives up is ended: the handler is posted when none of its functions
// runs or will run, and the thread that emits the signal waits for a function that is running. A task continues. After
// the completion a cancellation has no effect, and the value is given. As with all of Asio's operations, the signal
// must not be emitted at the same time as the handler is called: use a strand.
//
// Destroying the execution context during waits destroys their handlers, and does not block.
//
// It costs a few allocations, and a post to the handler's executor.
//
// async_wait does not block and throws std::bad_alloc only; all other failures reach the handler. Where memory is out
// when the wait ends, the handler is posted as soon as there is some; until then the runtime's completion thread waits.
#pragma once

#include "sluice/asio/detail/requirements.hpp"

#include <boost/asio/async_result.hpp>

#include "sluice/asio/detail/handler_wait.hpp"
#include "sluice/asio/detail/waited.hpp"

namespace sluice {

namespace detail {
template <awaitable Awaitable>
using signature_of_wait = wait_signature<typename waited<Awaitable>::result>;

struct initiate_wait {
    template <typename Handler, typename Awaitable>
    void operator()(Handler&& handler, Awaitable what) const {
        begin_wait<waited<Awaitable>>(std::forward<Handler>(handler), std::move(what));
    }
};
}  // namespace detail

template <awaitable Awaitable, boost::asio::completion_token_for<detail::signature_of_wait<Awaitable>> Token>
auto async_wait(Awaitable what, Token&& token) {
    return boost::asio::async_initiate<Token, detail::signature_of_wait<Awaitable>>(detail::initiate_wait{}, token,
                                                                                    std::move(what));
}

}  // namespace sluice
