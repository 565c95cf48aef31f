// SPDX-License-Identifier: Apache-2.0
// Elements of 8 bits: the largest one, and rounding to them, the same on every device.
#pragma once

#include <concepts>
#include <cstdint>

#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/f8.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice {

namespace detail {
template <typename T>
concept eight_bit_element = std::same_as<T, f8_e4m3> || std::same_as<T, std::int8_t>;
}  // namespace detail

namespace kernels {

// What a scale maps the largest number to. std::int8_t also holds -128, which only saturation makes.
template <detail::eight_bit_element T>
inline constexpr float largest_of = std::same_as<T, f8_e4m3> ? 448.0f : 127.0f;

// To nearest even; beyond the range its nearest end. NaN is NaN, as std::int8_t 0.
template <detail::eight_bit_element T>
SLUICE_KERNEL inline T rounded_to_8_bits(float x) {
    if constexpr (std::same_as<T, f8_e4m3>) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        std::uint16_t two;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
        return f8_e4m3::from_bits(static_cast<std::uint8_t>(two));
#else
        return f8_e4m3(x);
#endif
    } else {
        // After adding 1.5 * 2^23 the last place of a float is 1, and its low bits are the integer.
        const float within = sluice::detail::is_nan(x) ? 0.0f : x < -128 ? -128.0f : x > 127 ? 127.0f : x;
        return static_cast<std::int8_t>(__builtin_bit_cast(std::uint32_t, within + 0x1.8p23f) & 0xffu);
    }
}

}  // namespace kernels

}  // namespace sluice
