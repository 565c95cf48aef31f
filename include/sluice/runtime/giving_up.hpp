// What timeout and stop_when stand on: a task, or the end of patience, whichever comes first.
#pragma once

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <stop_token>
#include <variant>

#include "sluice/async/executor.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/task.hpp"
#include "sluice/op/deadline.hpp"
#include "sluice/runtime/alarm.hpp"
#include "sluice/runtime/error.hpp"
#include "sluice/runtime/stage.hpp"

namespace sluice::detail {

// Whoever is first decides; the rest come too late. Shared by the waiter, the task, and the alarm while it is set.
class patience : public std::enable_shared_from_this<patience> {
public:
    enum class end : int { none, done, timed_out, stopped };

    explicit patience(stage_ref at) : at_(std::move(at)) {}
    patience(const patience&) = delete;  // shared
    patience& operator=(const patience&) = delete;
    ~patience() = default;

    void begin(const std::optional<deadline>& until, const std::stop_token& stop);
    // Whether this was the first end. The waiter goes on, on the completion thread.
    bool come_to(end how) noexcept;
    end how() const noexcept { return end_.load(std::memory_order_acquire); }
    const stage& at() const noexcept { return *at_; }

    // Whether the coroutine is to be suspended: no end has come yet. Once.
    bool wait(std::coroutine_handle<> waiter) noexcept;
    // Some end has come: throws unless it was the task's.
    void conclude();

private:
    struct item final : work_item {
        explicit item(patience& whose, function what) noexcept : work_item(what), of(whose) {}
        patience& of;
        std::shared_ptr<patience> alive;
    };
    struct stopper {
        patience* of;
        void operator()() const noexcept { of->come_to(end::stopped); }
    };

    stage_ref at_;
    std::atomic<end> end_{end::none};
    std::atomic<void*> waiter_{nullptr};  // the coroutine's address; this object's own when an end came before it
    std::coroutine_handle<> waiting_;     // the same, for go_on_
    item ring_{*this, [](work_item& self) noexcept { rung(static_cast<item&>(self)); }};
    item go_on_{*this, [](work_item& self) noexcept { gone_on(static_cast<item&>(self)); }};
    std::optional<alarm> alarm_;
    std::optional<std::stop_callback<stopper>> stop_;

    static void rung(item& self) noexcept;
    static void gone_on(item& self) noexcept;
};

// co_await end_of_patience(ends): until some end has come. Throws unless it was the task's.
class end_of_patience {
public:
    explicit end_of_patience(patience& of) noexcept : of_(&of) {}

    bool await_ready() const noexcept { return of_->how() != patience::end::none; }
    bool await_suspend(std::coroutine_handle<> waiter) const noexcept { return of_->wait(waiter); }
    void await_resume() const { of_->conclude(); }

private:
    patience* of_;
};

// Runs the task to its end, even when nobody waits any more; keeps its result for the waiter.
template <typename T>
task<> run_until_end(task<T> work, std::shared_ptr<patience> ends, std::shared_ptr<std::optional<T>> result,
                     std::shared_ptr<std::exception_ptr> failure) {
    try {
        T made = co_await std::move(work);
        if (ends->how() == patience::end::none) result->emplace(std::move(made));
    } catch (...) {
        *failure = std::current_exception();
    }
    ends->come_to(patience::end::done);
}

}  // namespace sluice::detail
