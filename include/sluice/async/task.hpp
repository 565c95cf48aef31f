// SPDX-License-Identifier: Apache-2.0
// task<T>: a coroutine that starts when it is awaited, and gives a T (a value, move-only or not, a reference, or
// nothing) or throws what it threw.
//
//     task<int> answer() { co_return 42; }
//     task<> ask() {
//         int n = co_await answer();
//         auto again = answer();
//         n += co_await std::move(again);      // one with a name is consumed: std::move it
//     }
//
// Threads: awaiting starts the body at once, on the awaiting thread. The awaiting coroutine continues where the
// body ended. It is not suspended when the body ended at once, so a loop over a million such tasks needs no more stack
// than one. Tasks nested in each other need stack by their depth, as function calls do.
//
// Ownership: a task owns its coroutine, and awaiting moves the ownership to the await expression, whose end destroys
// the coroutine's frame. Parameters are copied or moved into the frame; what they refer to must outlive it. Dropping a
// task that was never awaited, or the coroutine that awaits it, destroys the frame where it is suspended. The caller
// that drops it guarantees that no thread resumes it any more: no executor has it queued, and no thread is about to
// complete what it waits for.
//
// A call allocates the coroutine's frame, unless the compiler elides that; awaiting allocates nothing.
//
// g++ 12: see CONTRIBUTING.md on temporaries in expressions with co_await.
#pragma once

#include <stdexcept>

#include "sluice/async/detail/active_call.hpp"
#include "sluice/async/detail/coroutine_frame.hpp"
#include "sluice/async/detail/result_promise.hpp"

namespace sluice {

template <typename T>
class task;

namespace detail {
template <typename T>
class task_promise final : public result_promise<T> {
public:
    task<T> get_return_object() noexcept;
    std::suspend_always initial_suspend() const noexcept { return {}; }

    class final_awaiter {
    public:
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<task_promise> self) const noexcept {
            return self.promise().end();
        }
        void await_resume() const noexcept {}
    };
    final_awaiter final_suspend() const noexcept { return {}; }

    // Runs the coroutine up to its end or its first suspension. True: it ends later, or has ended elsewhere, and the
    // waiter continues there; it owns this frame.
    bool start(std::coroutine_handle<> waiter) noexcept {
        active_call<task_promise> call(this);
        waiter_ = waiter;
        call_ = &call;
        std::coroutine_handle<task_promise>::from_promise(*this).resume();
        return !call.is_over();  // the frame may be destroyed: only the call is read
    }

private:
    // Returns the coroutine to resume: the waiter, or one that does nothing.
    std::coroutine_handle<> end() noexcept {
        if (active_call<task_promise>::end_inside(call_, this)) return std::noop_coroutine();
        return waiter_;
    }

    std::coroutine_handle<> waiter_;
    const active_call<task_promise>* call_ = nullptr;
};

template <typename T>
class task_awaiter {
public:
    explicit task_awaiter(coroutine_frame<task_promise<T>> body) noexcept : body_(std::move(body)) {}

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept { return body_.get().promise().start(waiter); }
    T await_resume() { return body_.get().promise().take(); }

private:
    coroutine_frame<task_promise<T>> body_;
};
}  // namespace detail

template <typename T = void>
class [[nodiscard]] task {
public:
    using promise_type = detail::task_promise<T>;  // for the compiler

    // Starts the task; once. Throws std::logic_error when it has been awaited, or moved from. Costs O(1), and the part
    // of the body that runs at once.
    detail::task_awaiter<T> operator co_await() && {
        if (!valid()) throw std::logic_error("a task can be awaited once");
        return detail::task_awaiter<T>(std::move(body_));
    }
    detail::task_awaiter<T> operator co_await() const& = delete;  // a task is consumed: std::move it

    // Whether it can still be awaited. Costs O(1).
    bool valid() const noexcept { return body_ != nullptr; }

private:
    friend promise_type;
    explicit task(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}

    detail::coroutine_frame<promise_type> body_;
};

template <typename T>
task<T> detail::task_promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

}  // namespace sluice
