// SPDX-License-Identifier: Apache-2.0
// Implements timeout, stop_when and the delays of retry: resumes the waiter when the task ends, the deadline passes, or
// stop is requested, whichever is first.
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <stop_token>

#include "sluice/async/detail/root.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/async/task.hpp"
#include "sluice/base/deadline.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/part_context.hpp"
#include "sluice/runtime/detail/timer.hpp"

namespace sluice::detail {

// A timer's expiry or a request to stop, for one receiver. It is raised on any thread and arrives inside the serial
// executor.
//
// Thread safety: raise() on any thread, once; the other members inside the serial executor.
class end_signal final : private work_item, public std::enable_shared_from_this<end_signal> {
public:
    using function = void (*)(void* receiver) noexcept;

    end_signal(std::shared_ptr<serial_executor> serial, function on_arrival, void* receiver) noexcept;
    // Raised when it is due, unless it is canceled before.
    void set_timer(completion_service& service, timer::clock::time_point due);
    void raise() noexcept;
    // From now on the receiver is not called.
    void cancel() noexcept;

private:
    void arrive() noexcept;

    const std::shared_ptr<serial_executor> serial_;
    const function on_arrival_;
    void* receiver_;
    completion_service* service_ = nullptr;
    std::optional<timer> timer_;
    bool has_fired_ = false;
    std::shared_ptr<end_signal> alive_;  // itself, while its timer is set or it is posted
};

// The deadline and the stop token of one wait, and the callback for the first of them. Lives in the frame of the
// coroutine that waits, and ends with it.
//
// Thread safety: none; all members are called inside the serial executor.
class deadline_or_stop {
public:
    enum class end : int { none, timed_out, stopped };
    using function = void (*)(void* receiver) noexcept;

    explicit deadline_or_stop(part_context_ref at) noexcept : at_(std::move(at)) {}
    deadline_or_stop(const deadline_or_stop&) = delete;  // signals point to it
    deadline_or_stop& operator=(const deadline_or_stop&) = delete;
    ~deadline_or_stop();

    // Starts the timer and listens to the token; the end may have come when this returns.
    void begin(const std::optional<deadline>& until, const std::stop_token& stop);
    end which() const noexcept { return end_; }
    // Calls callback(receiver) when the end comes; once.
    void on_end(function callback, void* receiver) noexcept;
    // Throws errc::timed_out or errc::canceled when the end has come.
    void throw_if_ended() const;

private:
    struct stopper {
        std::shared_ptr<end_signal> signal;
        void operator()() const noexcept { signal->raise(); }
    };

    void end_with(end which) noexcept;

    const part_context_ref at_;
    end end_ = end::none;
    function callback_ = nullptr;
    void* receiver_ = nullptr;
    std::shared_ptr<end_signal> timer_;
    std::shared_ptr<end_signal> stop_;
    std::optional<std::stop_callback<stopper>> on_stop_;
};

// co_await timed_pause(at, until): resumes at that time. Always leaves the serial executor first, even when the time
// has come: so what ends the operation gets in. Ends with the coroutine that waits.
class timed_pause {
public:
    timed_pause(part_context_ref at, const deadline& until) noexcept : at_(std::move(at)), until_(until) {}
    timed_pause(const timed_pause&) = delete;  // the signal points to it
    timed_pause& operator=(const timed_pause&) = delete;
    ~timed_pause();

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter);
    void await_resume() const noexcept {}

private:
    const part_context_ref at_;
    const deadline until_;
    std::coroutine_handle<> waiter_;
    std::shared_ptr<end_signal> signal_;
};

// co_await cancellable_wait(work, ends): runs the task until it ends, or until the deadline or stop. In the latter case
// the task's coroutines, and what they hold, are destroyed before the waiter is resumed.
template <typename T>
class cancellable_wait final : private root_owner {
public:
    cancellable_wait(task<T> work, deadline_or_stop& ends) : root_(make_root(std::move(work))), ends_(ends) {}
    cancellable_wait(const cancellable_wait&) = delete;  // lives in the waiter's frame
    cancellable_wait& operator=(const cancellable_wait&) = delete;

    bool await_ready() const noexcept { return ends_.which() != deadline_or_stop::end::none; }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept {
        root_.start(*this);
        if (has_ended_) return false;
        waiter_ = waiter;
        ends_.on_end([](void* self) noexcept { static_cast<cancellable_wait*>(self)->abandon_work(); }, this);
        return true;
    }
    T await_resume() {
        ends_.throw_if_ended();
        return root_.take();
    }

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        has_ended_ = true;
        if (!waiter_) return std::noop_coroutine();  // within await_suspend
        ends_.on_end(nullptr, nullptr);
        return waiter_;
    }
    void abandon_work() noexcept {
        root_.reset();
        waiter_.resume();
    }

    root<T> root_;
    deadline_or_stop& ends_;
    std::coroutine_handle<> waiter_;
    bool has_ended_ = false;
};

}  // namespace sluice::detail
