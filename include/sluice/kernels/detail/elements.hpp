// SPDX-License-Identifier: Apache-2.0
// Elements of tensors inside kernels: several in one load.
#pragma once

#include <cstddef>

namespace sluice::kernels {

// Count adjacent elements, aligned to all their bytes or to 16: one instruction reads or writes 16 bytes of them.
template <typename T, std::size_t Count>
struct alignas(sizeof(T) * Count < 16 ? sizeof(T) * Count : 16) piece {
    T element[Count];
};

// How many elements of T are 16 bytes.
template <typename T>
inline constexpr std::size_t piece_size = 16 / sizeof(T);

}  // namespace sluice::kernels
