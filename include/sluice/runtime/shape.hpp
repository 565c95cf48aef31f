// SPDX-License-Identifier: Apache-2.0
// The shape of a tensor: up to four dimensions, row-major, the last one contiguous.
//
// All functions here take constant time.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice {

// The number of elements along each dimension.
class shape {
public:
    static constexpr std::size_t max_rank = 4;  // dimensions of a tensor

    shape() = default;  // rank 0: one element
    // Throws errc::shape_mismatch for more than max_rank dimensions or a product that overflows.
    // (Inline because each launch creates and copies several shapes.)
    shape(std::initializer_list<std::size_t> extents) : shape(std::span(extents.begin(), extents.size())) {}
    explicit shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
        if (rank_ > max_rank) refuse_rank(rank_);
        bool overflows = false;
        bool is_empty = false;
        for (std::size_t i = 0; i < rank_; ++i) {
            extents_[i] = extents[i];
            is_empty = is_empty || extents[i] == 0;
            overflows = overflows || (!is_empty && __builtin_mul_overflow(size_, extents[i], &size_));
        }
        if (is_empty || overflows) settle_size();
    }

    // The shape of a tensor that was moved from: no elements, one dimension of 0. Not equal to [0]: operations refuse
    // it.
    static shape none() noexcept {
        shape made;
        made.rank_ = 1;
        made.size_ = 0;
        made.extents_.back() = 1;  // of a dimension that does not exist: no other shape has this value
        return made;
    }
    bool is_none() const noexcept { return rank_ == 1 && extents_.back() != 0; }  // whether it is none()

    std::size_t rank() const noexcept { return rank_; }  // the number of dimensions
    // The extent of this dimension, which is below rank().
    std::size_t operator[](std::size_t dimension) const noexcept { return extents_[dimension]; }
    // The number of elements.
    std::size_t size() const noexcept { return size_; }

    // The shape as a matrix: the last dimension gives the columns, all others together give the rows. A vector is one
    // row.
    std::size_t columns() const noexcept { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
    // The product of all extents but the last; of a vector 1.
    std::size_t rows() const noexcept { return columns() == 0 ? leading() : size_ / columns(); }

    friend bool operator==(const shape&, const shape&) = default;

private:
    [[noreturn]] static void refuse_rank(std::size_t rank);
    // A zero extent makes the size zero; otherwise the product overflows, and this throws.
    void settle_size();

    std::size_t leading() const noexcept {
        std::size_t product = 1;
        for (std::size_t i = 0; i + 1 < rank_; ++i) product *= extents_[i];
        return product;
    }

    std::array<std::size_t, max_rank> extents_{};
    std::size_t rank_ = 0;
    std::size_t size_ = 1;
};

// "[64, 10]"
std::string to_string(const shape& value);

}  // namespace sluice
