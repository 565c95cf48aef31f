// spawn(task, executor): starts a task now; its result can be waited for later, or not at all.
//
//     spawned<int> first = spawn(answer(), pool);
//     spawned<int> second = spawn(answer(), pool);
//     int sum = co_await std::move(first);             // in a coroutine
//     sum += std::move(second).get();                  // elsewhere; blocks
//
// The task starts on a thread of the executor and goes on where what it awaits resumes it. The executor must live until
// the task has started, and longer if the task uses it.
#pragma once

#include <memory>

#include "sluice/async/completion.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"

namespace sluice {

namespace detail {
// Shared by the handle and, until it has ended, by the task itself.
template <typename T>
class spawned_state final : private work_item, private root_owner {
public:
    explicit spawned_state(task<T> body) : work_item(&begin), root_(make_root(std::move(body))) {}

    static void post(std::shared_ptr<spawned_state> self, executor& on) noexcept {
        spawned_state& state = *self;
        state.running_ = std::move(self);
        on.post(state);
    }

    completion& end() noexcept { return end_; }
    T take() { return root_.take(); }

private:
    static void begin(work_item& item) noexcept {
        auto& state = static_cast<spawned_state&>(item);
        state.root_.start(state);
    }

    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        const auto last = std::move(running_);  // with the handle gone, state, frame and result go here
        return end_.complete();
    }

    root<T> root_;
    completion end_;
    std::shared_ptr<spawned_state> running_;
};

template <typename T>
class spawned_awaiter {
public:
    explicit spawned_awaiter(std::shared_ptr<spawned_state<T>> state) noexcept : state_(std::move(state)) {}
    spawned_awaiter(const spawned_awaiter&) = delete;  // lives in the waiter's frame
    spawned_awaiter& operator=(const spawned_awaiter&) = delete;
    ~spawned_awaiter() { state_->end().withdraw(); }  // the waiter may be dropped; the task goes on

    bool await_ready() const noexcept { return state_->end().complete_already(); }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept { return state_->end().wait(waiter); }
    T await_resume() { return state_->take(); }

private:
    std::shared_ptr<spawned_state<T>> state_;
};
}  // namespace detail

// Move-only. Dropping it never blocks: the task goes on by itself, and its result or exception is dropped with it on
// the thread where it ends.
template <typename T = void>
class [[nodiscard]] spawned {
public:
    spawned(spawned&&) noexcept = default;  // and no copies: the result can be taken once
    spawned& operator=(spawned&&) noexcept = default;
    ~spawned() = default;

    // Waits for the task's end, gives its value or throws its exception; once. Goes on at once when the task has ended,
    // else on the thread where it ends. Throws std::logic_error when the result has been taken, or moved from.
    detail::spawned_awaiter<T> operator co_await() && {
        if (!valid()) throw std::logic_error("a spawned task gives its result once");
        return detail::spawned_awaiter<T>(std::move(state_));
    }
    detail::spawned_awaiter<T> operator co_await() const& = delete;  // the result is consumed: std::move it

    // The same for a thread that is no coroutine: blocks it until the task has ended.
    T get() && { return sync_wait(std::move(*this)); }
    T get() const& = delete;  // the result is consumed: std::move it

    // Whether the task has ended: get() and co_await will not wait. Needs valid().
    bool ready() const noexcept { return state_->end().complete_already(); }
    // Whether the result has not been taken yet.
    bool valid() const noexcept { return state_ != nullptr; }

private:
    template <typename U>
    friend spawned<U> spawn(task<U> body, executor& on);
    explicit spawned(std::shared_ptr<detail::spawned_state<T>> state) noexcept : state_(std::move(state)) {}

    std::shared_ptr<detail::spawned_state<T>> state_;
};

// Starts the task on the executor and returns; with an inline_executor it runs here until it first suspends. Throws
// std::bad_alloc, having started nothing; std::logic_error from the result if the task had been awaited.
template <typename T>
spawned<T> spawn(task<T> body, executor& on) {
    auto state = std::make_shared<detail::spawned_state<T>>(std::move(body));
    detail::spawned_state<T>::post(state, on);
    return spawned<T>(std::move(state));
}

}  // namespace sluice
