// SPDX-License-Identifier: Apache-2.0
// spawn(task, executor): starts a task now; its result can be waited for later, or not at all.
//
//     spawned<int> first = spawn(answer(), pool);
//     spawned<int> second = spawn(answer(), pool);
//     int sum = co_await std::move(first);             // in a coroutine
//     sum += std::move(second).get();                  // elsewhere; blocks
//
// The task starts on a thread of the executor and continues where what it awaits resumes it. The executor must live
// until the task has started, and longer if the task uses it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "sluice/async/detail/completion.hpp"
#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/root.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/async/detail/wait_driver.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/wait_mode.hpp"
#include "sluice/base/deadline.hpp"

namespace sluice {

template <typename T = void>
class spawned;

namespace detail {
// What happens when the result is not wanted any more.
enum class abandonment {
    none,  // nothing: it continues, or has ended
    now,   // nothing of it runs or will run, and the end will not come
    soon,  // a function of it called abandon: when that function returns, nothing of it runs, and the end comes
};

// Shared by the handle and, until it has ended, by the task itself.
template <typename T>
class spawned_state {
public:
    spawned_state() = default;
    spawned_state(const spawned_state&) = delete;  // shared
    spawned_state& operator=(const spawned_state&) = delete;
    virtual ~spawned_state() = default;

    completion& end() noexcept { return end_; }
    // After the end, on the thread that takes the result; once.
    virtual T take() = 0;
    // The result is not wanted. May block until a running function returns.
    virtual abandonment abandon() noexcept { return abandonment::none; }
    // Throws on a thread that must not block until the end.
    virtual void require_may_block(std::string_view operation) const { require_may_wait_for_task(operation); }
    // The executor on which it was started; null when it was not started on one.
    virtual const executor* runs_on() const noexcept { return nullptr; }

    // Throws where the wait could never end.
    void wait(wait_mode mode, std::string_view operation) {
        if (end_.complete_already()) return wait_asleep();
        const task_wait counted(runs_on(), operation);
        if (has_wait_driver()) return drive_until([this] { return end_.complete_already(); });
        while (mode != wait_mode::block && !end_.complete_already()) {
            if (mode == wait_mode::yield) std::this_thread::yield();
        }
        wait_asleep();
    }
    bool wait_until(std::chrono::steady_clock::time_point deadline) {
        if (has_wait_driver()) return drive_until([this] { return end_.complete_already(); }, deadline);
        std::unique_lock lock(mutex_);
        return wake_.wait_until(lock, deadline, [this] { return end_.complete_already(); });
    }

protected:
    // Returns the coroutine to resume.
    std::coroutine_handle<> complete() noexcept {
        const auto waiter = end_.complete();
        const std::lock_guard lock(mutex_);  // a thread that checked before this is asleep by now
        wake_.notify_all();
        return waiter;
    }

private:
    // The lock orders the end's complete() before this returns.
    void wait_asleep() {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return end_.complete_already(); });
    }

    completion end_;
    std::mutex mutex_;  // of threads that wait
    std::condition_variable wake_;
};

// With the task.
template <typename T>
class spawned_task final : public spawned_state<T>, private work_item, private root_owner {
public:
    explicit spawned_task(task<T> body) : work_item(&begin), root_(make_root(std::move(body))) {}

    static void post(std::shared_ptr<spawned_task> self, executor& on) noexcept {
        spawned_task& state = *self;
        state.running_ = std::move(self);
        state.on_ = &on;
        on.post(state);
    }

    T take() override { return root_.take(); }
    const executor* runs_on() const noexcept override { return on_; }

private:
    static void begin(work_item& item) noexcept {
        auto& state = static_cast<spawned_task&>(item);
        const start_without_wait others_wait;  // the thread does not wait for its end
        state.root_.start(state);
    }

    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        const auto last = std::move(running_);  // without a handle, this destroys state, frame and result
        return this->complete();
    }

    root<T> root_;
    std::shared_ptr<spawned_task> running_;
    const executor* on_ = nullptr;  // not to be used: it may have ended
};

// Owned by the handle, or by its waiter, as long as the result is wanted. Its destruction abandons the task.
template <typename T>
class spawned_owner {
public:
    spawned_owner() = default;
    explicit spawned_owner(std::shared_ptr<spawned_state<T>> state) noexcept : state_(std::move(state)) {}
    spawned_owner(spawned_owner&&) noexcept = default;
    spawned_owner& operator=(spawned_owner&& other) noexcept {
        spawned_owner replaced(std::move(other));
        state_.swap(replaced.state_);
        return *this;
    }
    ~spawned_owner() {
        if (state_ != nullptr) state_->abandon();
    }

    const std::shared_ptr<spawned_state<T>>& state() const noexcept { return state_; }
    spawned_state<T>* operator->() const noexcept { return state_.get(); }

private:
    std::shared_ptr<spawned_state<T>> state_;
};

// Awaits the end, and does not take the result.
template <typename T>
class spawned_end {
public:
    explicit spawned_end(spawned_owner<T> state) noexcept : state_(std::move(state)) {}
    spawned_end(const spawned_end&) = delete;  // lives in the waiter's frame
    spawned_end& operator=(const spawned_end&) = delete;
    ~spawned_end() {  // the waiter may be dropped
        state_->abandon();
        state_->end().withdraw();
    }

    bool await_ready() const {
        if (state_->end().complete_already()) return true;
        if (is_wait_with_duty()) state_->require_may_block("sync_wait");
        if (is_starting_wait()) require_other_thread(state_->runs_on(), "sync_wait");
        return false;
    }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept { return state_->end().wait(waiter); }
    void await_resume() const noexcept {}

protected:
    spawned_owner<T> state_;
};

template <typename T>
class spawned_awaiter final : public spawned_end<T> {
public:
    using spawned_end<T>::spawned_end;
    T await_resume() { return this->state_->take(); }
};

template <typename T>
task<T> take_elsewhere(spawned_owner<T> owner, executor& target) {
    const std::shared_ptr<spawned_state<T>> state = owner.state();
    if (!state->end().complete_already()) {
        spawned_end<T> end(std::move(owner));
        co_await end;
        co_await resume_on(target);
    }
    co_return state->take();
}

struct spawned_access;
}  // namespace detail

// Move-only. Dropping it never blocks: the task continues, and its result or exception is dropped with it on
// the thread where it ends. (That of an operation that recovers, tries again or gives up is ended when it is dropped:
// see device_future.hpp.)
//
// Its members throw std::logic_error when the result has been taken, or moved from.
template <typename T>
class [[nodiscard]] spawned {
public:
    using value_type = T;  // of the task's result

    spawned(spawned&&) noexcept = default;  // and no copies: the result can be taken once
    spawned& operator=(spawned&&) noexcept = default;
    ~spawned() = default;

    // Waits for the task's end, gives its value or throws its exception; once. Continues at once when the task has
    // ended, else on the thread where it ends. Costs O(1).
    detail::spawned_awaiter<T> operator co_await() && {
        require_valid();
        return detail::spawned_awaiter<T>(std::move(state_));
    }
    detail::spawned_awaiter<T> operator co_await() const& = delete;  // the result is consumed: std::move it

    // The same, but continues on the executor, which outlives the wait; the result is taken there. It allocates one
    // coroutine frame.
    task<T> resume_on(executor& target) && {
        require_valid();
        return detail::take_elsewhere(std::move(state_), target);
    }

    // The same for a plain thread: blocks it until the task has ended. Costs O(1) and a move of the value when the task
    // has ended.
    T get(std::optional<wait_mode> mode = {}) && {
        require_may_block("get");
        state_->wait(mode.value_or(wait_mode::block), "get");
        const auto owned = std::move(state_);
        return owned->take();
    }
    T get(std::optional<wait_mode> mode = {}) const& = delete;  // the result is consumed: std::move it

    // Blocks until the task has ended; asleep unless `mode` says otherwise. A task that has not ended may need a thread
    // of the runtime: on a worker thread of a device, in a host call and on the runtime's completion thread, this, get
    // and the two below throw errc::invalid_argument then. So do this and get on a thread of the executor on which the
    // task was started, when all its other threads wait like this: no thread is left for the task. Costs O(1) when the
    // task has ended.
    void wait(std::optional<wait_mode> mode = {}) const {
        require_may_block("wait");
        state_->wait(mode.value_or(wait_mode::block), "wait");
    }
    // The same for at most the given time; returns whether the task has ended.
    template <typename Rep, typename Period>
    bool wait_for(std::chrono::duration<Rep, Period> at_most) const {
        return wait_until(detail::deadline_after(at_most));
    }
    // The same until that time; a time that has passed does not block.
    bool wait_until(std::chrono::steady_clock::time_point deadline) const {
        if (deadline <= std::chrono::steady_clock::now()) return is_ready();
        require_may_block("wait_for");
        return state_->wait_until(deadline);
    }

    // Whether the task has ended: get() and co_await will not wait. Costs O(1).
    bool is_ready() const {
        require_valid();
        return state_->end().complete_already();
    }
    // Whether the result has not been taken yet. Costs O(1).
    bool valid() const noexcept { return state_.state() != nullptr; }

private:
    friend detail::spawned_access;
    explicit spawned(std::shared_ptr<detail::spawned_state<T>> state) noexcept : state_(std::move(state)) {}

    void require_valid() const {
        if (!valid()) throw std::logic_error("a spawned task gives its result once");
    }
    void require_may_block(std::string_view operation) const {
        require_valid();
        if (!state_->end().complete_already()) state_->require_may_block(operation);
    }

    detail::spawned_owner<T> state_;
};

namespace detail {
// For code that creates handles, and for adaptors to other libraries.
struct spawned_access {
    template <typename T>
    static spawned<T> make(std::shared_ptr<spawned_state<T>> state) noexcept {
        return spawned<T>(std::move(state));
    }
    template <typename T>
    static const std::shared_ptr<spawned_state<T>>& state(const spawned<T>& of) noexcept {
        return of.state_.state();
    }
};
}  // namespace detail

// Starts the task on the executor and returns; with an inline_executor it runs here until it first suspends. Throws
// std::bad_alloc, having started nothing; std::logic_error from the result if the task had been awaited. Costs two
// allocations and one post; it creates no thread.
template <typename T>
spawned<T> spawn(task<T> body, executor& on) {
    auto state = std::make_shared<detail::spawned_task<T>>(std::move(body));
    detail::spawned_task<T>::post(state, on);
    return detail::spawned_access::make<T>(std::move(state));
}

}  // namespace sluice
