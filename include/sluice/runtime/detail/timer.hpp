// SPDX-License-Identifier: Apache-2.0
// timer: a piece of host work that is posted to the completion service at a given time, unless it is cancelled before.
// For deadlines.
#pragma once

#include <chrono>
#include <cstdint>

#include "sluice/async/executor.hpp"
#include "sluice/base/detail/pairing_heap.hpp"

namespace sluice::detail {

class timer {
public:
    using clock = std::chrono::steady_clock;

    timer(clock::time_point due, work_item& item) noexcept : due_(due), item_(item) {}
    timer(const timer&) = delete;  // lists point to it
    timer& operator=(const timer&) = delete;

    clock::time_point due() const noexcept { return due_; }
    work_item& item() const noexcept { return item_; }

private:
    friend class timer_queue;
    struct is_earlier {
        bool operator()(const timer& a, const timer& b) const noexcept {
            return a.due_ != b.due_ ? a.due_ < b.due_ : a.number_ < b.number_;
        }
    };
    friend class pairing_heap<timer, is_earlier>;

    const clock::time_point due_;
    work_item& item_;
    timer* next_ = nullptr;  // links of the heap
    timer* child_ = nullptr;
    timer* previous_ = nullptr;
    std::uint64_t number_ = 0;
    bool is_set_ = false;
};

// Timers ordered by their time; timers of equal time in the order of insertion.
//
// Thread safety: none.
class timer_queue {
public:
    bool empty() const noexcept { return heap_.empty(); }
    timer::clock::time_point next_due() const noexcept {
        return heap_.empty() ? timer::clock::time_point::max() : heap_.top()->due_;
    }

    void insert(timer& one) noexcept {
        one.number_ = ++count_;
        heap_.push(one);
        one.is_set_ = true;
    }
    // Returns whether the timer was in the queue.
    bool remove(timer& one) noexcept {
        if (!one.is_set_) return false;
        heap_.remove(one);
        one.is_set_ = false;
        return true;
    }
    // Removes and returns the first timer that is due; null when there is none.
    timer* take_due(timer::clock::time_point now) noexcept {
        timer* const one = heap_.top();
        if (one == nullptr || one->due_ > now) return nullptr;
        remove(*one);
        return one;
    }

private:
    pairing_heap<timer, timer::is_earlier> heap_;
    std::uint64_t count_ = 0;  // of all insertions
};

}  // namespace sluice::detail
