// A first-in first-out queue that keeps its memory: after a warm-up, pushing and popping allocate nothing.
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

    // Room for so many items: pushing up to there cannot fail.
    void reserve(std::size_t count) {
        while (slots_.size() < count) grow();
    }

    void push(T item) {
        if (size_ == slots_.size()) grow();
        slots_[(first_ + size_) % slots_.size()] = std::move(item);
        ++size_;
    }

    // There must be one.
    const T& front() const noexcept { return slots_[first_]; }

    T pop() {
        T item = std::move(slots_[first_]);
        first_ = (first_ + 1) % slots_.size();
        --size_;
        return item;
    }

private:
    void grow() {
        std::vector<T> larger(slots_.empty() ? 16 : 2 * slots_.size());
        for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(slots_[(first_ + i) % slots_.size()]);
        slots_ = std::move(larger);
        first_ = 0;
    }

    std::vector<T> slots_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

}  // namespace sluice::cpu
