// SPDX-License-Identifier: Apache-2.0
// Elements that a CPU moves to other places: in copies of neighbours where there are some, by tiles where a matrix is
// transposed. The kernels of movement, indexing and filling call these for a range of their outputs.
//
// A word is an unsigned integer of 1, 2, 4 or 8 bytes: an element of any type, bit by bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nn/operators/movement.hpp"

namespace sluice::nn::operators {

// The words that a thread moves in some 50 µs.
template <typename Word>
inline constexpr std::size_t words_of_part = (std::size_t{1} << 18) / sizeof(Word);

// Neighbours. Most are few, and a call of memcpy would take longer than the copy.
template <typename Word>
void copy_run(const Word* from, std::size_t count, Word* to) {
    constexpr std::size_t few = 16;
    if (count > few) {
        std::memcpy(to, from, count * sizeof(Word));
        return;
    }
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

// y[i] = x[view(i)] for first <= i < last. `first` is a multiple of the unit, and `last` too or the end.
std::size_t unit_of_moves(const strided_view& view, std::size_t word_bytes);
template <typename Word>
void move_elements(const Word* x, Word* y, const strided_view& view, std::size_t first, std::size_t last);

extern template void move_elements(const std::uint8_t*, std::uint8_t*, const strided_view&, std::size_t, std::size_t);
extern template void move_elements(const std::uint16_t*, std::uint16_t*, const strided_view&, std::size_t, std::size_t);
extern template void move_elements(const std::uint32_t*, std::uint32_t*, const strided_view&, std::size_t, std::size_t);
extern template void move_elements(const std::uint64_t*, std::uint64_t*, const strided_view&, std::size_t, std::size_t);

}  // namespace sluice::nn::operators
