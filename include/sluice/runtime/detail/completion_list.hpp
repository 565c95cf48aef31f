// SPDX-License-Identifier: Apache-2.0
// completion_list: the waiters for tickets of one stream; the lock-free core of completion. It knows no device and no
// stream.
//
// A waiter moves from `arrived_` (a stack: any thread pushes, only the drainer empties it, whole) to `waiting_` (in
// ticket order, used by the drainer only) to complete(). There is at most one drainer: the thread that raises
// `requests_` from 0.
//
// Invariant: whenever no thread is within a call, `requests_` is 0, `earliest_` is the lowest ticket in `waiting_`, and
// every waiter in `arrived_` or `waiting_` has a ticket above `released_`.
//
// Why no waiter is lost. Each of these pairs is a Dekker pair: each side writes its own variable and then reads the
// other's. All four accesses are seq_cst, so in their single order at least one of the two reads comes after the other
// side's write.
//   add() pushes, then reads released_         | release() raises released_, then reads arrived_
//   the drainer writes earliest_, then reads   | release() raises released_, then reads earliest_
//   released_                                  |
// Take a waiter and the release() that raised released_ to its ticket or above. By the first pair, add() sees the
// ticket released and requests a drain, or release() sees the waiter on the stack and requests one, or a drainer has
// already taken the waiter off the stack. By the second pair, that drainer at its end sees the ticket released and
// repeats its loop, or release() sees the ticket in earliest_ and requests a drain. A request while a drain runs makes
// the drainer repeat its loop (drain()), and it then finds what was written before the request.
//
// Never too early, and only once: a waiter leaves `waiting_` only when its ticket is at most the value read from
// released_, and it is then in no list.
#pragma once

#include <cstdint>
#include <utility>

#include "sluice/base/detail/atomics.hpp"
#include "sluice/runtime/detail/completion_waiter.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

// Thread safety: any thread may call every member, also from within complete(). All are lock-free; none allocates or
// throws. The list must outlive each call of its members: when all waiters have completed, the call that completed them
// may still be running.
template <typename Atomics = std_atomics>
class basic_completion_list {
public:
    basic_completion_list() = default;
    basic_completion_list(const basic_completion_list&) = delete;  // waiters and threads point into it
    basic_completion_list& operator=(const basic_completion_list&) = delete;

    // The draining thread calls waiter.complete(waiter) once, as soon as its ticket is released: this thread during
    // this call, or another thread whose drain is running. What happened before add(), and before the release() that
    // first reached the ticket, happens before complete().
    //
    // complete() is called without a lock, for one waiter of a list at a time; a drain completes the waiters that are
    // due in the order of their tickets. What complete() adds or releases on this list is handled after it has
    // returned, so calls do not nest. A long complete() delays the other waiters.
    void add(completion_waiter& waiter) noexcept {
        const ticket upto = waiter.upto;  // once pushed, the waiter may be destroyed
        push(waiter);
        // seq_cst: after the push, see the top.
        if (released_.load(std::memory_order_seq_cst) >= upto) drain();
    }

    // Every ticket up to this one is complete. Calls may come in any order; the highest ticket counts.
    // release(no_ticket) completes all waiters, and each later one in its add(). Without waiters this costs one
    // read-modify-write and two loads.
    void release(ticket upto) noexcept {
        if (!raise_released(upto)) return;  // the thread that raised it this far completes the waiters
        // seq_cst, both: after the raise, see the top.
        if (arrived_.load(std::memory_order_seq_cst) != nullptr || earliest_.load(std::memory_order_seq_cst) <= upto) {
            drain();
        }
    }

    // The highest ticket released so far. What happened before its first release() happened before this returns.
    ticket released() const noexcept { return released_.load(std::memory_order_acquire); }

    // Whether there are no waiters. Never true while a waiter whose add() happened before has not been completed. May
    // be false for a while after the last complete(), until the drain ends.
    //
    // A polling thread can use it to go to sleep: it announces that it sleeps (a seq_cst write), then sleeps if
    // empty(). A thread that adds a waiter calls add(), then reads whether the poller sleeps (a seq_cst read), and if
    // so wakes it.
    bool empty() const noexcept {
        // These are read in the order in which a waiter passes through them. When the waiter has left the stack
        // (acquire: from the drainer's exchange), the drainer's request is visible. When the request has been answered
        // (acquire: from the drainer's subtraction), the drainer's write to earliest_ is visible, and earliest_ names
        // the waiter or an earlier one until complete() has been called. seq_cst on the first: for the poller above,
        // against the push.
        return arrived_.load(std::memory_order_seq_cst) == nullptr && requests_.load(std::memory_order_acquire) == 0 &&
               earliest_.load(std::memory_order_relaxed) == no_ticket;
    }

private:
    template <typename T>
    using atomic = typename Atomics::template atomic<T>;

    void push(completion_waiter& waiter) noexcept {
        // The stack is only ever emptied as a whole, so a head that was pushed again (ABA) does no harm.
        waiter.next_ = arrived_.load(std::memory_order_relaxed);
        // seq_cst on success: before the read of released_, see the top; as a release it publishes the waiter.
        while (!arrived_.compare_exchange_weak(waiter.next_, &waiter, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        }
    }

    // Raises released_ to `upto`; returns whether it was lower.
    bool raise_released(ticket upto) noexcept {
        ticket before = released_.load(std::memory_order_relaxed);
        while (before < upto) {
            // seq_cst: before the reads of release(), see the top; as a release it publishes what the commands
            // did, and as a read-modify-write it passes on what earlier releases published.
            if (released_.compare_exchange_weak(before, upto, std::memory_order_seq_cst, std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    // Completes the waiters that are due, or requests this from the thread that already drains.
    void drain() noexcept {
        // Release: publishes to the drainer what was written before the request. Acquire: waiting_, from the drainer
        // before.
        if (requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
        std::uint64_t answered = 1;
        while (answered != 0) {
            drain_once();
            // Acquire: what was written before the new requests. Release: waiting_, to the next drainer.
            answered = requests_.fetch_sub(answered, std::memory_order_acq_rel) - answered;
        }
    }

    void drain_once() noexcept {
        do {
            take_arrived();
            // Acquire: what the released commands did, for complete().
            const ticket upto = released_.load(std::memory_order_acquire);
            while (completion_waiter* const due = waiting_.pop(upto)) due->complete(*due);
            // Not earlier: until complete() is called, empty() must see the waiter. seq_cst, both: see the top.
            earliest_.store(waiting_.earliest(), std::memory_order_seq_cst);
        } while (waiting_.earliest() != no_ticket && waiting_.earliest() <= released_.load(std::memory_order_seq_cst));
    }

    void take_arrived() noexcept {
        // Acquire: the waiters, of all pushes (each is a read-modify-write, so they are one release sequence).
        // Release: the drainer's request, to empty().
        completion_waiter* last_first = arrived_.exchange(nullptr, std::memory_order_acq_rel);
        completion_waiter* first = nullptr;
        while (last_first != nullptr) {
            completion_waiter* const waiter = std::exchange(last_first, last_first->next_);
            waiter->next_ = std::exchange(first, waiter);
        }
        while (first != nullptr) waiting_.push(*std::exchange(first, first->next_));
    }

    atomic<ticket> released_{0};
    atomic<completion_waiter*> arrived_{nullptr};
    atomic<ticket> earliest_{no_ticket};  // the lowest in waiting_, as of the last drain; no_ticket for none
    atomic<std::uint64_t> requests_{0};   // requests for a drain that have not been answered
    detail::waiter_queue waiting_;        // used by the drainer only
};

using completion_list = basic_completion_list<>;

}  // namespace sluice
