// SPDX-License-Identifier: Apache-2.0
// How a tile's numbers are spread over the threads of a block: on a GPU 128 of them, on a CPU one.
#pragma once

#include <cstddef>
#include <cstring>

#include "sluice/base/kernel.hpp"

// Numbers of a tile are in registers, which only loops without a counter can reach.
#if defined(__CUDA_ARCH__)
#define SLUICE_UNROLL _Pragma("unroll")
#else
#define SLUICE_UNROLL
#endif

namespace sluice::detail {

inline constexpr int threads_of_tile_block = 128;

#if defined(__CUDA_ARCH__)
inline constexpr int tile_threads = threads_of_tile_block;
#else
inline constexpr int tile_threads = 1;
#endif

SLUICE_KERNEL inline int tile_thread() {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
}

// Size numbers in row-major order: pieces of 16 bytes go round the threads.
template <typename T, int Size>
struct tile_spread {
    static constexpr int whole_piece = static_cast<int>(16 / sizeof(T));
    static constexpr int piece = Size < whole_piece ? Size : whole_piece;
    static constexpr int pieces = (Size + tile_threads * piece - 1) / (tile_threads * piece);
    static constexpr int count = pieces * piece;

    // Where this thread's p-th piece starts, and whether there is one: small tiles leave some threads without.
    SLUICE_KERNEL static int place(int p) { return (p * tile_threads + tile_thread()) * piece; }
    SLUICE_KERNEL static bool holds(int p) { return place(p) < Size; }
};

// At multiples of Count * sizeof(T) bytes.
template <int Count, typename T>
SLUICE_KERNEL void copy_piece(T* to, const T* from) {
    struct alignas(Count * sizeof(T)) piece {
        T element[Count];
    };
    *reinterpret_cast<piece*>(to) = *reinterpret_cast<const piece*>(from);
}

}  // namespace sluice::detail
