// SPDX-License-Identifier: Apache-2.0
// Numbers of 16 bits in few instructions, and words of two of them. For sm_80 and later.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sluice/base/half.hpp"

namespace sluice::kernels {

// Rounded, as T(x), which also keeps the payload of a NaN.
template <typename T>
__device__ inline T short_number(float x) {
    if constexpr (std::is_same_v<T, float>) {
        return x;
    } else {
        std::uint16_t bits = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        if constexpr (std::is_same_v<T, half>)
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        else
            asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
        return __builtin_bit_cast(T, bits);
    }
}

// The first one in the lower half.
template <typename T>
__device__ inline std::uint32_t short_pair(T a, T b) {
    return static_cast<std::uint32_t>(__builtin_bit_cast(std::uint16_t, a)) |
           static_cast<std::uint32_t>(__builtin_bit_cast(std::uint16_t, b)) << 16;
}

}  // namespace sluice::kernels
