// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of this room: a gate that suspends a coroutine, and a counter of objects.
#pragma once

#include <memory>

#include "sluice/async/detail/completion.hpp"
#include "sluice/async/task.hpp"

namespace sluice::test {

// Suspends the one coroutine that awaits it until open() is called, which resumes it on the calling thread. Once open
// it suspends no coroutine.
class gate {
public:
    gate() = default;

    void open() noexcept { opened_.complete().resume(); }
    bool is_open() const noexcept { return opened_.complete_already(); }

    // A separate awaiter: g++ 12 copies what is awaited through the name of a lambda's capture.
    class awaiter {
    public:
        explicit awaiter(detail::completion& opened) : opened_(&opened) {}
        bool await_ready() const noexcept { return opened_->complete_already(); }
        bool await_suspend(std::coroutine_handle<> waiter) noexcept { return opened_->wait(waiter); }
        void await_resume() const noexcept {}

    private:
        detail::completion* opened_;
    };
    awaiter operator co_await() noexcept { return awaiter(opened_); }

private:
    detail::completion opened_;
};

// Counts its objects, on one thread at a time. Each owns memory on the heap, so that the address sanitizer sees an
// object that is destroyed twice.
class counted {
public:
    explicit counted(int& alive) : alive_(std::make_unique<int*>(&alive)) { ++alive; }
    counted(const counted& other) : counted(**other.alive_) {}
    counted(counted&& other) : counted(**other.alive_) {}
    counted& operator=(const counted&) = delete;  // the tests need none
    ~counted() { --**alive_; }

private:
    std::unique_ptr<int*> alive_;
};

inline task<> pass(gate& through) { co_await through; }

template <typename T>
task<T> value_after(gate& through, T value) {
    co_await through;
    co_return std::move(value);
}

template <typename T>
task<T> value_now(T value) {
    co_return std::move(value);
}

}  // namespace sluice::test
