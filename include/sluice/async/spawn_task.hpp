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

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "sluice/async/completion.hpp"
#include "sluice/async/deadline.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/root.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/wait_mode.hpp"

namespace sluice {

template <typename T = void>
class spawned;

namespace detail {
// Shared by the handle and, until it has ended, by the task itself.
template <typename T>
class spawned_state {
public:
    spawned_state() = default;
    spawned_state(const spawned_state&) = delete;  // shared
    spawned_state& operator=(const spawned_state&) = delete;
    virtual ~spawned_state() = default;

    completion& end() noexcept { return end_; }
    // After the end, on the thread that wants the result; once.
    virtual T take() = 0;

    void wait(wait_mode mode) {
        while (mode != wait_mode::block && !end_.complete_already()) {
            if (mode == wait_mode::yield) std::this_thread::yield();
        }
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return end_.complete_already(); });
    }
    bool wait_until(std::chrono::steady_clock::time_point deadline) {
        std::unique_lock lock(mutex_);
        return wake_.wait_until(lock, deadline, [this] { return end_.complete_already(); });
    }

protected:
    // Gives the coroutine to go on with.
    std::coroutine_handle<> complete() noexcept {
        const auto waiter = end_.complete();
        const std::lock_guard lock(mutex_);  // whoever looked before is asleep by now
        wake_.notify_all();
        return waiter;
    }

private:
    completion end_;
    std::mutex mutex_;  // of threads that wait
    std::condition_variable wake_;
};

// With the task, whose result `finish` turns into what is taken, on the thread that takes it.
template <typename T, typename Made, typename Finish>
class spawned_task final : public spawned_state<T>, private work_item, private root_owner {
public:
    spawned_task(task<Made> body, Finish finish)
        : work_item(&begin), root_(make_root(std::move(body))), finish_(std::move(finish)) {}

    static void post(std::shared_ptr<spawned_task> self, executor& on) noexcept {
        spawned_task& state = *self;
        state.running_ = std::move(self);
        on.post(state);
    }

    T take() override { return finish_(root_); }

private:
    static void begin(work_item& item) noexcept {
        auto& state = static_cast<spawned_task&>(item);
        state.root_.start(state);
    }

    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        const auto last = std::move(running_);  // with the handle gone, state, frame and result go here
        return this->complete();
    }

    root<Made> root_;
    Finish finish_;
    std::shared_ptr<spawned_task> running_;
};

// Awaits the end, and leaves the result where it is.
template <typename T>
class spawned_end {
public:
    explicit spawned_end(std::shared_ptr<spawned_state<T>> state) noexcept : state_(std::move(state)) {}
    spawned_end(const spawned_end&) = delete;  // lives in the waiter's frame
    spawned_end& operator=(const spawned_end&) = delete;
    ~spawned_end() { state_->end().withdraw(); }  // the waiter may be dropped; the task goes on

    bool await_ready() const noexcept { return state_->end().complete_already(); }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept { return state_->end().wait(waiter); }
    void await_resume() const noexcept {}

protected:
    std::shared_ptr<spawned_state<T>> state_;
};

template <typename T>
class spawned_awaiter final : public spawned_end<T> {
public:
    using spawned_end<T>::spawned_end;
    T await_resume() { return this->state_->take(); }
};

template <typename T>
task<T> take_elsewhere(std::shared_ptr<spawned_state<T>> state, executor& where) {
    if (!state->end().complete_already()) {
        spawned_end<T> end(state);
        co_await end;
        co_await resume_on(where);
    }
    co_return state->take();
}

// Starts a task whose result is finished, from its root, by whoever takes it. As spawn() below.
template <typename T, typename Made, typename Finish>
spawned<T> spawn_to_finish(task<Made> body, executor& on, Finish finish);
}  // namespace detail

// Move-only. Dropping it never blocks: the task goes on by itself, and its result or exception is dropped with it on
// the thread where it ends.
//
// Its members throw std::logic_error when the result has been taken, or moved from.
template <typename T>
class [[nodiscard]] spawned {
public:
    using value_type = T;

    spawned(spawned&&) noexcept = default;  // and no copies: the result can be taken once
    spawned& operator=(spawned&&) noexcept = default;
    ~spawned() = default;

    // Waits for the task's end, gives its value or throws its exception; once. Goes on at once when the task has ended,
    // else on the thread where it ends.
    detail::spawned_awaiter<T> operator co_await() && {
        require_valid();
        return detail::spawned_awaiter<T>(std::move(state_));
    }
    detail::spawned_awaiter<T> operator co_await() const& = delete;  // the result is consumed: std::move it

    // The same, but goes on as the executor says, which outlives the wait; the result is taken there.
    task<T> resume_on(executor& where) && {
        require_valid();
        return detail::take_elsewhere(std::move(state_), where);
    }

    // The same for a thread that is no coroutine: blocks it until the task has ended.
    T get(std::optional<wait_mode> mode = {}) && {
        wait(mode);
        const auto state = std::move(state_);
        return state->take();
    }
    T get(std::optional<wait_mode> mode = {}) const& = delete;  // the result is consumed: std::move it

    // Blocks until the task has ended; asleep unless another way is asked for.
    void wait(std::optional<wait_mode> mode = {}) const {
        require_valid();
        state_->wait(mode.value_or(wait_mode::block));
    }
    // The same for at most so long: whether it has ended.
    template <typename Rep, typename Period>
    bool wait_for(std::chrono::duration<Rep, Period> at_most) const {
        return wait_until(detail::deadline_after(at_most));
    }
    bool wait_until(std::chrono::steady_clock::time_point deadline) const {
        require_valid();
        return state_->wait_until(deadline);
    }

    // Whether the task has ended: get() and co_await will not wait.
    bool is_ready() const {
        require_valid();
        return state_->end().complete_already();
    }
    // Whether the result has not been taken yet.
    bool valid() const noexcept { return state_ != nullptr; }

private:
    template <typename U, typename Made, typename Finish>
    friend spawned<U> detail::spawn_to_finish(task<Made> body, executor& on, Finish finish);
    explicit spawned(std::shared_ptr<detail::spawned_state<T>> state) noexcept : state_(std::move(state)) {}

    void require_valid() const {
        if (!valid()) throw std::logic_error("a spawned task gives its result once");
    }

    std::shared_ptr<detail::spawned_state<T>> state_;
};

template <typename T, typename Made, typename Finish>
spawned<T> detail::spawn_to_finish(task<Made> body, executor& on, Finish finish) {
    using state_type = detail::spawned_task<T, Made, Finish>;
    auto state = std::make_shared<state_type>(std::move(body), std::move(finish));
    state_type::post(state, on);
    return spawned<T>(std::move(state));
}

// Starts the task on the executor and returns; with an inline_executor it runs here until it first suspends. Throws
// std::bad_alloc, having started nothing; std::logic_error from the result if the task had been awaited.
template <typename T>
spawned<T> spawn(task<T> body, executor& on) {
    return detail::spawn_to_finish<T>(std::move(body), on, [](detail::root<T>& ended) -> T { return ended.take(); });
}

}  // namespace sluice
