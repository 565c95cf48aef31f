// One event that happens once, and at most one coroutine that waits for it. Lock-free.
//
// The one hand-over under spawned, when_all and when_any. What can complete at once is started first and waited
// for afterwards: wait() then says "do not suspend", so that a loop over such things needs no stack.
//
// Invariant: state_ goes from empty to complete, or from empty to waiter to complete. Whichever of wait() and
// complete() comes second sees the first, and only then the waiter goes on. Neither touches the object after its own
// step.
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
        // release: the waiter's frame is handed over; acquire on failure: what was made is read.
        return state_.compare_exchange_strong(expected, waiter.address(), std::memory_order_release,
                                              std::memory_order_acquire);
    }

    // Gives the coroutine that is now to be resumed: the waiter, or one that does nothing.
    [[nodiscard]] std::coroutine_handle<> complete() noexcept {
        // acquire: the waiter's frame is taken over; release: what was made is handed over.
        void* const waiter = state_.exchange(complete_mark(), std::memory_order_acq_rel);
        if (!waiter) return std::noop_coroutine();
        return std::coroutine_handle<>::from_address(waiter);
    }

    // The waiter, if there is one, waits no longer, because it is being destroyed. Whoever destroys it knows that
    // complete() is not giving it back at the same time.
    void withdraw() noexcept {
        void* waiter = state_.load(std::memory_order_relaxed);
        if (waiter != complete_mark()) state_.compare_exchange_strong(waiter, nullptr, std::memory_order_relaxed);
    }

private:
    void* complete_mark() const noexcept { return const_cast<completion*>(this); }  // no coroutine has this address

    std::atomic<void*> state_{nullptr};
};

}  // namespace sluice::detail
