// The tensor core's product of one warp, mma.m16n8k16 (sm_80 and later), with the right operand read from shared memory
// in the order that wgmma.cuh describes: d += a * b, where d is [16, 8 * Blocks] float, a [16, 16], b [8 * Blocks][16].
#pragma once

#include <cstdint>
#include <type_traits>

#include "sluice/runtime/half.hpp"

namespace sluice::kernels {

template <typename T>
__device__ inline void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    if constexpr (std::is_same_v<T, half>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Four blocks of 8 rows of 16 bytes: two of n, with both halves of k each.
__device__ inline void load_blocks(std::uint32_t (&b)[4], const void* blocks) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(blocks)) + threadIdx.x % 32 * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address));
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
