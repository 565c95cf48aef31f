// One who waits for a ticket, as a link of completion_list's; and the queue in which such wait their turn.
#pragma once

#include <limits>
#include <utility>

#include "sluice/runtime/ticket.hpp"

namespace sluice {

// Set `upto` and `complete`, then hand it to completion_list::add(), which calls complete(*this) once. Whoever
// makes it keeps it alive until then, where it is, and does not touch it between; complete() may destroy it.
// `upto` is below no_ticket.
struct completion_waiter {
    ticket upto = 0;
    void (*complete)(completion_waiter&) noexcept = nullptr;

    // The list's own. Nobody else uses them.
    completion_waiter* next_ = nullptr;
    completion_waiter* child_ = nullptr;
};

// After every ticket that a stream gives out.
inline constexpr ticket no_ticket = std::numeric_limits<ticket>::max();

namespace detail {

// A priority queue of waiters, the lowest ticket first. It allocates nothing and never fails.
//
// Invariant: a waiter is either in the run, a list in ticket order, or in the heap, a pairing heap (Fredman,
// Sedgewick, Sleator, Tarjan 1986). Tickets mostly come growing, and those go to the run's end: O(1) for
// pushing and popping. Others go to the heap: O(1) for pushing, O(log n) amortised for popping. Equal tickets
// come out in the order they came in where they came growing, in any order otherwise.
//
// Thread safety: none.
class waiter_queue {
public:
    // The lowest ticket in it; no_ticket when it is empty.
    ticket earliest() const noexcept {
        const ticket run = run_ != nullptr ? run_->upto : no_ticket;
        const ticket heap = heap_ != nullptr ? heap_->upto : no_ticket;
        return heap < run ? heap : run;
    }

    void push(completion_waiter& waiter) noexcept {
        waiter.next_ = waiter.child_ = nullptr;
        if (run_ == nullptr) {
            run_ = run_last_ = &waiter;
        } else if (waiter.upto >= run_last_->upto) {
            run_last_ = run_last_->next_ = &waiter;
        } else {
            heap_ = heap_ == nullptr ? &waiter : merge(heap_, &waiter);
        }
    }

    // The earliest, if its ticket is at most `upto`; else null.
    completion_waiter* pop(ticket upto) noexcept {
        if (heap_ != nullptr && (run_ == nullptr || heap_->upto < run_->upto)) {
            return heap_->upto <= upto ? std::exchange(heap_, merge_pairs(heap_->child_)) : nullptr;
        }
        return run_ != nullptr && run_->upto <= upto ? std::exchange(run_, run_->next_) : nullptr;
    }

private:
    // Both are roots; gives the root of both. A root's next_ means nothing.
    static completion_waiter* merge(completion_waiter* a, completion_waiter* b) noexcept {
        if (b->upto < a->upto) std::swap(a, b);
        b->next_ = std::exchange(a->child_, b);
        return a;
    }

    // The heap of these siblings: first merged in pairs from the left, then the pairs from the right.
    static completion_waiter* merge_pairs(completion_waiter* siblings) noexcept {
        completion_waiter* pairs = nullptr;
        while (siblings != nullptr) {
            completion_waiter* const first = siblings;
            completion_waiter* const second = first->next_;
            siblings = second != nullptr ? second->next_ : nullptr;
            completion_waiter* const pair = second != nullptr ? merge(first, second) : first;
            pair->next_ = std::exchange(pairs, pair);
        }
        completion_waiter* root = nullptr;
        while (pairs != nullptr) {
            completion_waiter* const pair = std::exchange(pairs, pairs->next_);
            root = root == nullptr ? pair : merge(root, pair);
        }
        return root;
    }

    completion_waiter* run_ = nullptr;
    completion_waiter* run_last_ = nullptr;  // means something while run_ is not null
    completion_waiter* heap_ = nullptr;
};

}  // namespace detail
}  // namespace sluice
