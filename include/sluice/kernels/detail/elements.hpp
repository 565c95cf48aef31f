// SPDX-License-Identifier: Apache-2.0
// Elements of tensors inside kernels: several in one load, and as floats and back. On a GPU one instruction converts a
// 16-bit element; the results are those of half.hpp, except for a NaN's bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::kernels {

// Count adjacent elements, aligned to all their bytes or to 16: one instruction reads or writes 16 bytes of them.
template <typename T, std::size_t Count>
struct alignas(sizeof(T) * Count < 16 ? sizeof(T) * Count : 16) piece {
    T element[Count];
};

// How many elements of T are 16 bytes.
template <typename T>
inline constexpr std::size_t piece_size = 16 / sizeof(T);

template <typename T>
SLUICE_KERNEL inline float as_float(T x) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::same_as<T, half>) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits()));
        return value;
    }
#endif
    return static_cast<float>(x);
}

template <typename T>
SLUICE_KERNEL inline T from_float(float x) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::same_as<T, half>) {
        std::uint16_t bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return half::from_bits(bits);
    }
#if __CUDA_ARCH__ >= 800
    if constexpr (std::same_as<T, bfloat16>) {
        std::uint16_t bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bfloat16::from_bits(bits);
    }
#endif
#endif
    return T(x);
}

}  // namespace sluice::kernels
