// SPDX-License-Identifier: Apache-2.0
// The tensor cores' products of one warp, mma.sync (sm_80 and later): d += a * b, where d is [16, 8] float and b has k
// contiguous. Lane 4g + t holds of d the rows g and g + 8, columns 2t and 2t + 1.
//
// For kernels: nothing is declared where a host compiler reads this.
#pragma once

#if defined(__CUDACC__)

#include <cstdint>
#include <type_traits>

#include "sluice/base/half.hpp"

namespace sluice::kernels {

// 16 of k: two elements a register.
template <typename T>
__device__ inline void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    __trap();  // the library launches other kernels on such a GPU; kernels/tile.hpp says it to authors of kernels
#else
    if constexpr (std::is_same_v<T, half>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {  // 8 of k: a float a register, rounded to tf32
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
#endif
}

// Four matrices of 8 rows of 16 bytes; lane i gives the address of row i % 8 of matrix i / 8. `Transposed`: of 8 x 8
// 16-bit elements, the other way round.
template <bool Transposed = false>
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
    if constexpr (Transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    }
}

__device__ inline std::uint32_t rounded_to_tf32(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return __float_as_uint(x);  // for mma, which is not there either
#else
    std::uint32_t made;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(made) : "f"(x));
    return made;
#endif
}

}  // namespace sluice::kernels

#endif
