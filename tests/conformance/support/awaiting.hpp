// SPDX-License-Identifier: Apache-2.0
// Helpers for tests that wait in coroutines.
//
// (Operations are spawned before they are awaited, and coroutines are functions with parameters, not lambdas with
// captures, because of g++ 12: see CONTRIBUTING.md.)
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "conformance/backend.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"

namespace sluice::conformance {

inline executor& here() {
    static inline_executor instance;
    return instance;
}

// Like spawn, but on the given stream.
template <operation Op>
auto spawn_on(stream on, Op op) {
    execution_context context(on);
    auto output = std::move(op).submit(context);
    return device_future<output_of<Op>>(context.submission(), std::move(output));
}

// Awaits a future in a separate coroutine.
template <typename Future>
task<typename Future::value_type> value_of(Future future) {
    co_return co_await std::move(future);
}
// Awaits a future and returns the thread on which the coroutine continued.
template <typename Future>
task<std::thread::id> thread_after(Future future) {
    static_cast<void>(co_await std::move(future));
    co_return std::this_thread::get_id();
}

// A coroutine that starts at once on the calling thread and is destroyed with its owner, wherever it is suspended then.
class owned_coroutine {
public:
    class promise_type {
    public:
        owned_coroutine get_return_object() {
            return owned_coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };

    void destroy() { frame_.reset(); }

private:
    explicit owned_coroutine(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
    detail::coroutine_frame<promise_type> frame_;
};

// Records that it was resumed.
template <typename Awaitable>
owned_coroutine note_after(Awaitable awaited, std::atomic<bool>& resumed) {
    static_cast<void>(co_await std::move(awaited));
    resumed = true;
}

// Returns when all waiters for commands submitted to the stream so far have been woken.
inline void wait_until_waiters_are_woken(stream on) {
    gate held(on);  // so that the coroutine certainly waits, and is woken after the earlier waiters
    auto last = spawn(thread_after(spawn_on(on, host_call([] {}))), here());
    held.open();
    std::move(last).get();
}

// The message of the exception that a call throws; empty when it throws nothing.
template <std::invocable Function>
std::string failure_of(Function&& call) {
    try {
        call();
        return "";
    } catch (const std::exception& failure) {
        return failure.what();
    }
}
// The message of the exception that a future holds; empty for none.
template <typename Future>
requires requires(Future future) { std::move(future).get(); }
std::string failure_of(Future future) {
    return failure_of([&] { static_cast<void>(std::move(future).get()); });
}

// Fails when the stream runs it.
inline auto failing(std::string message) {
    return host_call([message = std::move(message)] { throw std::runtime_error(message); });
}
// The same, with a number as the output that is never produced.
inline auto failing_number(std::string message) {
    return host_call([message = std::move(message)]() -> unsigned { throw std::runtime_error(message); });
}
// Fails while it is submitted.
struct throwing {
    std::string message = "mine";
    template <typename... Ts>
    any_operation<tensor<unsigned>> operator()(Ts&&...) const {
        throw std::runtime_error(message);
    }
};

// A flag that a host call can wait for. Opens when it is dropped.
class signal {
public:
    void give() {
        if (!given_.exchange(true)) latch_->count_down();
    }
    signal() = default;
    signal(const signal&) = delete;  // one latch
    signal& operator=(const signal&) = delete;
    ~signal() { give(); }

    void wait() const { latch_->wait(); }
    // The latch for which a host call waits; it may outlive this object.
    std::shared_ptr<std::latch> latch() const { return latch_; }

private:
    std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
    std::atomic<bool> given_{false};
};

}  // namespace sluice::conformance
