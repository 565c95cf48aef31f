// Who waits for which ticket of one stream: the lock-free core of completion. It knows no device and no stream.
//
// A waiter goes from `arrived_` (a stack that anyone pushes to and only the drainer empties, whole) to `waiting_`
// (in ticket order, the drainer's own) to complete(). There is at most one drainer: who raises `requests_` from 0.
//
// Invariant: whenever nobody is within a call, `requests_` is 0, `earliest_` is the lowest ticket in `waiting_`,
// and every waiter in `arrived_` or `waiting_` has a ticket above `released_`.
//
// Why none is lost. Each of these pairs is a Dekker: each side writes its own and then reads the other's, all
// four seq_cst, so in their single order at least one of the two reads comes after the other side's write.
//   add() pushes, then reads released_         | release() raises released_, then reads arrived_
//   the drainer writes earliest_, then reads   | release() raises released_, then reads earliest_
//   released_                                  |
// Take a waiter and the release() that raised released_ to its ticket or above. By the first pair add() sees
// the ticket released and asks for a drain, or release() sees the stack with it and asks, or else a drainer
// has taken it off the stack. That drainer, when done, by the second pair sees the ticket released and goes
// round again, or release() sees it in earliest_ and asks. Who asks for a drain while one runs makes it go
// round again (drain()), and then it finds what was written before the request.
//
// Never too early, and once: a waiter leaves `waiting_` only with a ticket up to what was read from released_,
// and it is then in no list.
#pragma once

#include <cstdint>
#include <utility>

#include "sluice/runtime/atomics.hpp"
#include "sluice/runtime/completion_waiter.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

// Thread safety: every member may be called by any thread, from within complete() too. All are lock-free; none
// allocates or throws. The list outlives each call of its members: that all waiters have completed does not
// yet say that the call which completed them is over.
template <typename Atomics = std_atomics>
class basic_completion_list {
public:
    basic_completion_list() = default;
    basic_completion_list(const basic_completion_list&) = delete;  // waiters and threads point into it
    basic_completion_list& operator=(const basic_completion_list&) = delete;

    // Has waiter.complete(waiter) called once, as soon as its ticket is released, by whichever thread drains:
    // perhaps this one and at once, or, where a drain is going on, by the thread that does it. What happened
    // before add(), and before the release() that first reached the ticket, happens before complete().
    //
    // complete() is called without a lock, one waiter of a list at a time; those that a drain finds due, in the
    // order of their tickets. What it adds or releases on this list is seen to after it has returned, so calls
    // do not nest. A long complete() delays the others.
    void add(completion_waiter& waiter) noexcept {
        const ticket upto = waiter.upto;  // once pushed, it may be gone
        push(waiter);
        // seq_cst: after the push, see the top.
        if (released_.load(std::memory_order_seq_cst) >= upto) drain();
    }

    // Every ticket up to this one is over. Tickets may come in any order; the highest counts. release(no_ticket)
    // completes all, and at once all that are ever added. With nobody waiting this is one read-modify-write and
    // two loads.
    void release(ticket upto) noexcept {
        if (!raise_released(upto)) return;  // who raised it so far looks after the waiters
        // seq_cst, both: after the raise, see the top.
        if (arrived_.load(std::memory_order_seq_cst) != nullptr || earliest_.load(std::memory_order_seq_cst) <= upto) {
            drain();
        }
    }

    // The highest ticket released so far. What happened before its first release() happened before this returns.
    ticket released() const noexcept { return released_.load(std::memory_order_acquire); }

    // Whether nobody waits: never true when an add() that happened before has not led to complete() being called.
    // It may be false for a while after the last one was completed, while a drain ends.
    //
    // A poller can go to sleep by it: it announces that it sleeps (a seq_cst write), then sleeps if empty().
    // An adder calls add(), then looks whether the poller sleeps (a seq_cst read), and if so wakes it.
    bool empty() const noexcept {
        // In the order in which a waiter passes through them. When it is gone from the stack (acquire: from the
        // drainer's exchange), the drainer's request is seen; when that is gone (acquire: from the drainer's
        // subtraction), what it wrote to earliest_ is seen, and this names the waiter or one before it until
        // complete() has been called. seq_cst on the first: for the poller above, against the push.
        return arrived_.load(std::memory_order_seq_cst) == nullptr && requests_.load(std::memory_order_acquire) == 0 &&
               earliest_.load(std::memory_order_relaxed) == no_ticket;
    }

private:
    template <typename T>
    using atomic = typename Atomics::template atomic<T>;

    void push(completion_waiter& waiter) noexcept {
        // Only ever emptied whole, so that a head which has come back (ABA) does no harm.
        waiter.next_ = arrived_.load(std::memory_order_relaxed);
        // seq_cst on success: before the read of released_, see the top; as a release it publishes the waiter.
        while (!arrived_.compare_exchange_weak(waiter.next_, &waiter, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        }
    }

    // Whether it was below `upto`.
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

    // Completes what is due, or has the thread do it that is at it already.
    void drain() noexcept {
        // Release: what the request is about, to the drainer. Acquire: waiting_, from the drainer before.
        if (requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
        std::uint64_t answered = 1;
        while (answered != 0) {
            drain_once();
            // Acquire: what the new requests are about. Release: waiting_, to the drainer after.
            answered = requests_.fetch_sub(answered, std::memory_order_acq_rel) - answered;
        }
    }

    void drain_once() noexcept {
        do {
            take_arrived();
            // Acquire: what the released commands did, for complete().
            const ticket upto = released_.load(std::memory_order_acquire);
            while (completion_waiter* const due = waiting_.pop(upto)) due->complete(*due);
            // Not sooner: until complete() is called, empty() must see it. seq_cst, both: see the top.
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
    atomic<std::uint64_t> requests_{0};   // for drains, that have not been answered
    detail::waiter_queue waiting_;        // the drainer's
};

using completion_list = basic_completion_list<>;

}  // namespace sluice
