// SPDX-License-Identifier: Apache-2.0
// completion_list with a selectable fault, to check that the explorer finds it. Without a fault the protocol is the
// same, so a failure comes from the fault and not from this copy.
#pragma once

#include <cstdint>
#include <utility>

#include "sluice/runtime/detail/completion_waiter.hpp"
#include "sluice/sim/atomic.hpp"

namespace sluice::sim {

enum class list_fault {
    none,
    add_does_not_recheck,            // does not read the released ticket after the push
    release_looks_before_it_raises,  // looks for waiters, then publishes the ticket
    release_stores,                  // stores the ticket even if it is lower
    drainer_does_not_loop,           // ignores requests that arrived meanwhile
    drainer_does_not_recheck,        // does not read the released ticket again after it has written earliest_
    drainer_publishes_too_soon,      // writes earliest_ before it has called complete()
    empty_ignores_the_drainer,       // which may hold waiters that are neither in the stack nor in earliest_
    concurrent_drainers,             // a thread that requests a drain while one runs drains too
    // Memory orders that are too weak.
    earliest_is_stored_relaxed,    // not before the released ticket is read again
    drainer_rereads_with_acquire,  // the released ticket, after it has written earliest_
    push_is_release,               // not before the released ticket is read
    requests_are_relaxed,          // a drainer does not hand the waiters on to the next one
};

template <list_fault Fault>
class faulty_completion_list {
public:
    void add(completion_waiter& waiter) noexcept {
        const ticket upto = waiter.upto;
        waiter.next_ = arrived_.load();
        while (!arrived_.compare_exchange_weak(waiter.next_, &waiter,
                                               with<list_fault::push_is_release>(std::memory_order_release),
                                               std::memory_order_relaxed)) {
        }
        if (Fault != list_fault::add_does_not_recheck && released_.load() >= upto) drain();
    }

    void release(ticket upto) noexcept {
        if constexpr (Fault == list_fault::release_looks_before_it_raises) {
            const bool someone_waits = arrived_.load() != nullptr || earliest_.load() <= upto;
            if (raise_released(upto) && someone_waits) drain();
        } else {
            if (raise_released(upto) && (arrived_.load() != nullptr || earliest_.load() <= upto)) drain();
        }
    }

    ticket released() const noexcept { return released_.load(); }

    bool empty() const noexcept {
        if (arrived_.load() != nullptr) return false;
        if (Fault != list_fault::empty_ignores_the_drainer && requests_.load(std::memory_order_acquire) != 0)
            return false;
        return earliest_.load(std::memory_order_relaxed) == no_ticket;
    }

private:
    // The memory order that the fault has.
    template <list_fault Of>
    static constexpr std::memory_order with(std::memory_order order) {
        return Fault == Of ? order : std::memory_order_seq_cst;
    }

    bool raise_released(ticket upto) noexcept {
        if constexpr (Fault == list_fault::release_stores) return released_.store(upto), true;
        ticket before = released_.load();
        while (before < upto) {
            if (released_.compare_exchange_weak(before, upto, std::memory_order_seq_cst, std::memory_order_relaxed))
                return true;
        }
        return false;
    }

    void drain() noexcept {
        constexpr auto order = with<list_fault::requests_are_relaxed>(std::memory_order_relaxed);
        if (requests_.fetch_add(1, order) != 0 && Fault != list_fault::concurrent_drainers) return;
        std::uint64_t answered = 1;
        while (answered != 0) {
            drain_once();
            if constexpr (Fault == list_fault::drainer_does_not_loop) return requests_.store(0);
            if constexpr (Fault == list_fault::concurrent_drainers) return void(requests_.fetch_sub(1));
            answered = requests_.fetch_sub(answered, order) - answered;
        }
    }

    void drain_once() noexcept {
        do {
            take_arrived();
            const ticket upto = released_.load();
            if constexpr (Fault == list_fault::drainer_publishes_too_soon) publish_without(upto);
            while (completion_waiter* const due = waiting_.pop(upto)) due->complete(*due);
            earliest_.store(waiting_.earliest(),
                            with<list_fault::earliest_is_stored_relaxed>(std::memory_order_relaxed));
            if constexpr (Fault == list_fault::drainer_does_not_recheck) return;
        } while (waiting_.earliest() != no_ticket &&
                 waiting_.earliest() <=
                     released_.load(with<list_fault::drainer_rereads_with_acquire>(std::memory_order_acquire)));
    }

    // Writes earliest_ as it will be when the waiters up to this ticket are completed.
    void publish_without(ticket upto) noexcept {
        sluice::detail::waiter_queue due;
        while (completion_waiter* const waiter = waiting_.pop(upto)) due.push(*waiter);
        earliest_.store(waiting_.earliest());
        while (completion_waiter* const waiter = due.pop(no_ticket)) waiting_.push(*waiter);
    }

    void take_arrived() noexcept {
        completion_waiter* arrived = arrived_.exchange(nullptr);
        while (arrived != nullptr) waiting_.push(*std::exchange(arrived, arrived->next_));
    }

    atomic<ticket> released_{0};
    atomic<completion_waiter*> arrived_{nullptr};
    atomic<ticket> earliest_{no_ticket};
    atomic<std::uint64_t> requests_{0};
    sluice::detail::waiter_queue waiting_;
};

}  // namespace sluice::sim
