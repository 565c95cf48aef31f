// SPDX-License-Identifier: Apache-2.0
// as_sender(operation, policy): an operation as a sender of std::execution.
//
// start() submits the operation to the policy's next stream, on the calling thread, and does not wait; the policy must
// live until then. The operation state may be destroyed only before start() or after the completion, as always.
//
//   set_value    the values that sync() would return: several values of a tuple are several arguments, nothing is none
//   set_error    std::exception_ptr: what sync() would throw, what submitting throws, and std::bad_alloc
//   set_stopped  when a stop was requested of the receiver's stop token, and came before the completion. Work that a
//                device has begun cannot be stopped: it is abandoned, its outputs are dropped and their memory is
//                reused after it. With a token that can be stopped, the operation is submitted as stop_when submits it
//
// The thread: the one that calls start() when the operation is complete already or is refused; otherwise a thread of
// the runtime, or the one that requests the stop. Code there should be short and must not block: continue on a
// scheduler of threads (sluice/senders/scheduler.hpp). A downloaded result is copied there.
//
// as_sender costs moves of the operation and allocates nothing; start() costs what spawn costs.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <stop_token>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/op/cancellation.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/senders/vocabulary.hpp"

namespace sluice {

namespace detail {

template <typename Result>
struct sent_values {
    using signature = execution::set_value_t(Result);
    static void send(auto&& receiver, Result& result) noexcept {
        execution::set_value(std::move(receiver), std::move(result));
    }
};
template <typename... Ts>
struct sent_values<std::tuple<Ts...>> {
    using signature = execution::set_value_t(Ts...);
    static void send(auto&& receiver, std::tuple<Ts...>& result) noexcept {
        std::apply([&](Ts&... each) { execution::set_value(std::move(receiver), std::move(each)...); }, result);
    }
};

// A coroutine without a waiter: it is destroyed at its end.
struct unawaited {
    struct promise_type {
        unawaited get_return_object() const noexcept { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
};

// What spawn gives, awaited; the state may be destroyed by its completion.
template <typename Result, typename State, typename Running>
unawaited deliver(State* state, Running running) {
    std::optional<Result> result;
    std::exception_ptr failure;
    try {
        if constexpr (std::is_same_v<typename Running::value_type, void>) {
            co_await std::move(running);
            result.emplace();
        } else {
            Result made = co_await std::move(running);
            result.emplace(std::move(made));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    state->complete(result, std::move(failure));
}

inline bool is_canceled(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const error& thrown) {
        return thrown.code() == make_error_code(errc::canceled);
    } catch (...) {
        return false;
    }
}

template <operation Op, typename Receiver>
class sent_operation {
    using token =
        std::decay_t<decltype(execution::get_stop_token(execution::get_env(std::declval<const Receiver&>())))>;
    using value = typename decltype(spawn(std::declval<Op>(), std::declval<scheduling_policy&>()))::value_type;
    using result = std::conditional_t<std::is_void_v<value>, std::tuple<>, value>;

    struct request {
        sent_operation* of;
        void operator()() const noexcept {
            std::stop_source source = of->stop_;  // the state may be destroyed meanwhile
            source.request_stop();
        }
    };
    using callback = typename token::template callback_type<request>;

public:
    using operation_state_concept = execution::operation_state_t;

    sent_operation(Op op, scheduling_policy& policy, Receiver receiver)
        : op_(std::move(op)), policy_(&policy), receiver_(std::move(receiver)) {}
    sent_operation(const sent_operation&) = delete;  // the runtime points to it
    sent_operation& operator=(const sent_operation&) = delete;
    ~sent_operation() = default;

    void start() & noexcept {
        const token wanted = execution::get_stop_token(execution::get_env(receiver_));
        if (wanted.stop_requested()) return execution::set_stopped(std::move(receiver_));
        try {
            if (wanted.stop_possible()) {
                stop_ = std::stop_source();
                auto running = spawn(stop_when(std::move(op_), stop_.get_token()), *policy_);
                callback_.emplace(wanted, request{this});
                deliver<result>(this, std::move(running));
            } else {
                auto running = spawn(std::move(op_), *policy_);
                deliver<result>(this, std::move(running));
            }
        } catch (...) {
            callback_.reset();
            execution::set_error(std::move(receiver_), std::current_exception());
        }
    }

    void complete(std::optional<result>& made, std::exception_ptr failure) noexcept {
        callback_.reset();  // waits for a request on another thread
        if (made) {
            sent_values<result>::send(std::move(receiver_), *made);
        } else if (stop_.stop_possible() && stop_.stop_requested() && is_canceled(failure)) {
            execution::set_stopped(std::move(receiver_));
        } else {
            execution::set_error(std::move(receiver_), std::move(failure));
        }
    }

private:
    Op op_;
    scheduling_policy* policy_;
    Receiver receiver_;
    std::stop_source stop_{std::nostopstate};
    std::optional<callback> callback_;
};

}  // namespace detail

// An operation and the policy that it will be submitted to. Move-only; as_sender makes it.
template <operation Op>
class operation_sender {
    using value = typename decltype(spawn(std::declval<Op>(), std::declval<scheduling_policy&>()))::value_type;
    using result = std::conditional_t<std::is_void_v<value>, std::tuple<>, value>;

public:
    using sender_concept = execution::sender_t;  // for std::execution
    // See the top of this file.
    using completion_signatures =
        execution::completion_signatures<typename detail::sent_values<result>::signature,
                                         execution::set_error_t(std::exception_ptr), execution::set_stopped_t()>;

    // Called by as_sender. Costs moves of the operation.
    operation_sender(Op op, scheduling_policy& policy) : op_(std::move(op)), policy_(&policy) {}

    // An operation is submitted once, so only a sender that is moved is connected. Costs moves of the operation and the
    // receiver, and allocates nothing.
    template <typename Receiver>
    auto connect(Receiver receiver) && {
        return detail::sent_operation<Op, Receiver>(std::move(op_), *policy_, std::move(receiver));
    }

private:
    Op op_;
    scheduling_policy* policy_;
};

template <operation Op>
operation_sender<Op> as_sender(Op op, scheduling_policy& policy) {
    return operation_sender<Op>(std::move(op), policy);
}

}  // namespace sluice
