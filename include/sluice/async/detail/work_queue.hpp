// SPDX-License-Identifier: Apache-2.0
// A queue of work items, first in, first out. It owns nothing and never allocates.
//
// Thread safety: none; executors keep it under their lock.
#pragma once

#include <utility>

#include "sluice/async/executor.hpp"

namespace sluice::detail {

class work_queue {
public:
    work_queue() = default;
    work_queue(work_queue&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
    work_queue& operator=(work_queue&&) = delete;  // it would lose what is queued

    bool empty() const noexcept { return first_ == nullptr; }

    void push(work_item& item) noexcept {
        item.next_ = nullptr;
        (last_ ? last_->next_ : first_) = &item;
        last_ = &item;
    }

    // The oldest item, or nullptr when there is none.
    work_item* pop() noexcept {
        work_item* const item = first_;
        if (item) {
            first_ = item->next_;
            if (!first_) last_ = nullptr;
        }
        return item;
    }

private:
    work_item* first_ = nullptr;
    work_item* last_ = nullptr;
};

}  // namespace sluice::detail
