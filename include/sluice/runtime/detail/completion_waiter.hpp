// SPDX-License-Identifier: Apache-2.0
// completion_waiter: a waiter for a ticket, as a link of completion_list. waiter_queue: waiters in ticket order.
#pragma once

#include <limits>
#include <utility>

#include "sluice/base/detail/pairing_heap.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {

// Set `upto` and `complete`, then pass it to completion_list::add(), which calls complete(*this) once. The owner keeps
// it alive until then, does not move it and does not access it; complete() may destroy it. `upto` is below no_ticket.
struct completion_waiter {
    ticket upto = 0;
    void (*complete)(completion_waiter&) noexcept = nullptr;

    // Used by the list only.
    completion_waiter* next_ = nullptr;
    completion_waiter* child_ = nullptr;
    completion_waiter* previous_ = nullptr;
};

// Higher than every ticket of a stream.
inline constexpr ticket no_ticket = std::numeric_limits<ticket>::max();

namespace detail {

// A priority queue of waiters, the lowest ticket first. It allocates nothing and never fails.
//
// Invariant: a waiter is either in the run, a list in ticket order, or in the heap. Tickets mostly arrive in ascending
// order; those are appended to the run: O(1) for pushing and popping. Others go into the heap. Equal tickets in the run
// come out in the order of their arrival, others in any order.
//
// Thread safety: none.
class waiter_queue {
public:
    // The lowest ticket in it; no_ticket when it is empty.
    ticket earliest() const noexcept {
        const ticket run = run_ != nullptr ? run_->upto : no_ticket;
        const ticket heap = !heap_.empty() ? heap_.top()->upto : no_ticket;
        return heap < run ? heap : run;
    }

    void push(completion_waiter& waiter) noexcept {
        waiter.next_ = nullptr;
        if (run_ == nullptr) {
            run_ = run_last_ = &waiter;
        } else if (waiter.upto >= run_last_->upto) {
            run_last_ = run_last_->next_ = &waiter;
        } else {
            heap_.push(waiter);
        }
    }

    // Removes and returns the earliest waiter if its ticket is at most `upto`; otherwise returns null.
    completion_waiter* pop(ticket upto) noexcept {
        if (!heap_.empty() && (run_ == nullptr || heap_.top()->upto < run_->upto)) {
            return heap_.top()->upto <= upto ? heap_.pop() : nullptr;
        }
        return run_ != nullptr && run_->upto <= upto ? std::exchange(run_, run_->next_) : nullptr;
    }

private:
    struct is_earlier {
        bool operator()(const completion_waiter& a, const completion_waiter& b) const noexcept {
            return a.upto < b.upto;
        }
    };

    completion_waiter* run_ = nullptr;
    completion_waiter* run_last_ = nullptr;  // valid only while run_ is not null
    pairing_heap<completion_waiter, is_earlier> heap_;
};

}  // namespace detail
}  // namespace sluice
