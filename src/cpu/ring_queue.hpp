// SPDX-License-Identifier: Apache-2.0
// A first-in first-out queue that keeps its memory until trim(): after a warm-up, push and pop allocate nothing.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::cpu {

template <typename T>
class ring_queue {
public:
    bool empty() const noexcept { return size_ == 0; }
    std::size_t size() const noexcept { return size_; }

    // The number of items that fit without an allocation.
    std::size_t capacity() const noexcept { return slots_.size(); }

    // Releases the memory that the present items do not need. When there is no memory to move them, nothing changes.
    void trim() noexcept {
        std::size_t needed = size_ == 0 ? 0 : least_capacity;
        while (needed < size_) needed *= 2;
        if (needed >= slots_.size()) return;
        try {
            move_to(needed);
        } catch (...) {  // NOLINT(bugprone-empty-catch): documented above
        }
    }

    void push(T item) {
        if (size_ == slots_.size()) move_to(slots_.empty() ? least_capacity : 2 * slots_.size());
        slots_[(first_ + size_) % slots_.size()] = std::move(item);
        ++size_;
    }

    // The queue must not be empty.
    const T& front() const noexcept { return slots_[first_]; }

    T pop() {
        T item = std::move(slots_[first_]);
        first_ = (first_ + 1) % slots_.size();
        --size_;
        return item;
    }

private:
    static constexpr std::size_t least_capacity = 16;

    void move_to(std::size_t capacity) {
        std::vector<T> other(capacity);
        for (std::size_t i = 0; i < size_; ++i) other[i] = std::move(slots_[(first_ + i) % slots_.size()]);
        slots_ = std::move(other);
        first_ = 0;
    }

    std::vector<T> slots_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

}  // namespace sluice::cpu
