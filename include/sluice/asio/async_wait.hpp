// async_wait(future, token): waits for a device_future, a spawned task, or anything else that Sluice can await, as an
// asynchronous operation of Asio's.
//
// Signature: void(std::exception_ptr, T); for a tuple void(std::exception_ptr, Ts...), for nothing
// void(std::exception_ptr). The exception is what get() would throw. What the T are then: see wait_arguments.hpp.
//
// Where: the handler is called on its associated executor, by way of post: never inside async_wait, never on the
// library's completion thread. A download's contents are copied out there, too. Without an executor of its own a
// handler runs on Asio's system executor; say bind_executor(...). Until then the executor has work. The associated
// allocator is used, and its memory returned before the handler is called.
//
// Cancellation: terminal and partial. The handler gets boost::system::system_error with operation_aborted, soon. Work
// that a device has begun cannot be stopped: it is abandoned, its outputs dropped and their memory reused behind it; a
// task goes on by itself. When it had come already, the cancellation comes too late and the value is given. As with all
// of Asio's operations, who emits the signal must not do so at the same time as the handler is called: a strand does
// that.
//
// Dropping the execution context with waits outstanding destroys their handlers, and waits for nothing.
//
// It does not block and throws std::bad_alloc only; all else reaches the handler.
#pragma once

#include "sluice/asio/requirements.hpp"

#include <boost/asio/async_result.hpp>

#include "sluice/asio/handler_wait.hpp"
#include "sluice/asio/waited.hpp"

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
