// SPDX-License-Identifier: Apache-2.0
// The tensor core's product of one warp, mma.m16n8k16 (sm_80 and later), with the right operand read from shared memory
// in the order that wgmma.cuh describes: d += a * b, where d is [16, 8 * Blocks] float, a [16, 16], b [8 * Blocks][16].
#pragma once

#include <cstdint>

#include "sluice/kernels/detail/mma.hpp"

namespace sluice::kernels {

// Four blocks of 8 rows of 16 bytes: two of n, with both halves of k each.
__device__ inline void load_blocks(std::uint32_t (&b)[4], const void* blocks) {
    load_matrices(b, static_cast<std::uint32_t>(__cvta_generic_to_shared(blocks)) + threadIdx.x % 32 * 16);
}

template <typename T, int Blocks>
__device__ inline void mma_slab(float (&d)[Blocks][4], const std::uint32_t (&a)[4], const unsigned char* slab) {
#pragma unroll
    for (int block = 0; block < Blocks; block += 2) {
        std::uint32_t b[4];
        load_blocks(b, slab + block * 256);
        mma<T>(d[block], a, b[0], b[1]);
        mma<T>(d[block + 1], a, b[2], b[3]);
    }
}

}  // namespace sluice::kernels
