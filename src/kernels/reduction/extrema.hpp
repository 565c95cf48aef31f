// SPDX-License-Identifier: Apache-2.0
// The larger and the smaller of two numbers, for code of both sides: IEEE 754-2019's maximum and minimum. NaN if either
// is NaN; +0 is larger than -0. So they give the same in whatever order numbers are taken.
#pragma once

#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice::kernels {

SLUICE_KERNEL inline bool is_unordered(float a, float b) {
#if defined(__CUDA_ARCH__)
    return a != a || b != b;
#else
    return __builtin_isunordered(a, b);
#endif
}

SLUICE_KERNEL inline float maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float made;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(made) : "f"(a), "f"(b));
    return made;
#else
    // The same bits twice, unless they are zeros of both signs: then those of +0. With all bits set it is NaN. So,
    // without branches, loops are vectorised.
    const float larger = a > b ? a : b, larger_or_first = b > a ? b : a;
    const std::uint32_t bits =
        __builtin_bit_cast(std::uint32_t, larger) & __builtin_bit_cast(std::uint32_t, larger_or_first);
    return __builtin_bit_cast(float, is_unordered(a, b) ? 0xffff'ffffu : bits);
#endif
}

SLUICE_KERNEL inline float minimum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float made;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(made) : "f"(a), "f"(b));
    return made;
#else
    const float smaller = a < b ? a : b, smaller_or_first = b < a ? b : a;
    const std::uint32_t bits =
        __builtin_bit_cast(std::uint32_t, smaller) | __builtin_bit_cast(std::uint32_t, smaller_or_first);
    return __builtin_bit_cast(float, is_unordered(a, b) ? 0xffff'ffffu : bits);
#endif
}

// A number's place in that order: a larger number has a larger key, the largest is every NaN's.
SLUICE_KERNEL inline std::int32_t order_key(float x) {
    const auto bits = __builtin_bit_cast(std::int32_t, x);
    return x != x ? 0x7fff'ffff : bits >= 0 ? bits : bits ^ 0x7fff'ffff;
}

}  // namespace sluice::kernels
