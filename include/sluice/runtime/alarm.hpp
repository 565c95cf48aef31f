// alarm: a piece of host work that is posted to the completion service when its time has
// come, unless it is taken back before. For deadlines.
#pragma once

#include <chrono>

#include "sluice/async/executor.hpp"

namespace sluice::detail {

class alarm {
public:
    using clock = std::chrono::steady_clock;

    alarm(clock::time_point due, work_item& item) noexcept : due_(due), item_(item) {}
    alarm(const alarm&) = delete;  // lists point to it
    alarm& operator=(const alarm&) = delete;

    clock::time_point due() const noexcept { return due_; }
    work_item& item() const noexcept { return item_; }

private:
    friend class alarm_list;

    const clock::time_point due_;
    work_item& item_;
    alarm* next_ = nullptr;
    alarm* previous_ = nullptr;
    bool is_set_ = false;
};

// Alarms in the order of their time. Insertion looks from the end: deadlines mostly grow.
//
// Thread safety: none.
class alarm_list {
public:
    bool empty() const noexcept { return first_ == nullptr; }
    alarm::clock::time_point next_due() const noexcept {
        return first_ != nullptr ? first_->due_ : alarm::clock::time_point::max();
    }

    void insert(alarm& one) noexcept {
        alarm* before = last_;
        while (before != nullptr && before->due_ > one.due_) before = before->previous_;
        one.previous_ = before;
        one.next_ = before != nullptr ? before->next_ : first_;
        (before != nullptr ? before->next_ : first_) = &one;
        (one.next_ != nullptr ? one.next_->previous_ : last_) = &one;
        one.is_set_ = true;
    }
    // Whether it was in the list.
    bool remove(alarm& one) noexcept {
        if (!one.is_set_) return false;
        (one.previous_ != nullptr ? one.previous_->next_ : first_) = one.next_;
        (one.next_ != nullptr ? one.next_->previous_ : last_) = one.previous_;
        one.is_set_ = false;
        return true;
    }
    // Takes out the first one that is due; null when there is none.
    alarm* take_due(alarm::clock::time_point now) noexcept {
        alarm* const one = first_;
        if (one == nullptr || one->due_ > now) return nullptr;
        remove(*one);
        return one;
    }

private:
    alarm* first_ = nullptr;
    alarm* last_ = nullptr;
};

}  // namespace sluice::detail
