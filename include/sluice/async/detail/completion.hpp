// SPDX-License-Identifier: Apache-2.0
// completion: an event that happens once, and at most one coroutine that waits for it. Lock-free.
//
// spawned, when_all and when_any are built on it. They start first what can complete at once, and wait for it
// afterwards: wait() then says "do not suspend", so a loop over such awaitables needs no stack.
//
// Invariant: state_ goes from empty to complete, or from empty to waiter to complete. The second of wait()
// and complete() sees the first, and only then the waiter is resumed. Neither uses the object after its own step.
#pragma once

#include <atomic>
#include <coroutine>

namespace sluice::detail {

class completion {
public:
    completion() = default;
    completion(const completion&) = delete;  // two sides point to it
    completion& operator=(const completion&) = delete;

    // True: what was written before complete() can be read.
    bool complete_already() const noexcept { return state_.load(std::memory_order_acquire) == complete_mark(); }

    // For await_suspend. True: complete() will give the waiter back; it may be running already. False: the event has
    // happened, so the waiter must not suspend.
    bool wait(std::coroutine_handle<> waiter) noexcept {
        if (complete_already()) return false;
        void* expected = nullptr;
        // release: the waiter's frame is passed on; acquire on failure: the result is read.
        return state_.compare_exchange_strong(expected, waiter.address(), std::memory_order_release,
                                              std::memory_order_acquire);
    }

    // Returns the coroutine to resume: the waiter, or one that does nothing.
    [[nodiscard]] std::coroutine_handle<> complete() noexcept {
        // acquire: the waiter's frame is taken over; release: the result is passed on.
        void* const waiter = state_.exchange(complete_mark(), std::memory_order_acq_rel);
        if (!waiter) return std::noop_coroutine();
        return std::coroutine_handle<>::from_address(waiter);
    }

    // The waiter, if there is one, waits no longer, because it is being destroyed. The caller guarantees that
    // complete() does not return it at the same time.
    void withdraw() noexcept {
        void* waiter = state_.load(std::memory_order_relaxed);
        if (waiter != complete_mark()) state_.compare_exchange_strong(waiter, nullptr, std::memory_order_relaxed);
    }

private:
    void* complete_mark() const noexcept { return const_cast<completion*>(this); }  // no coroutine has this address

    std::atomic<void*> state_{nullptr};
};

}  // namespace sluice::detail
