// SPDX-License-Identifier: Apache-2.0
// half and bfloat16: 16-bit floating point elements of tensors, on the host and in kernels. They are for storage:
// arithmetic is done in float. The conversion to float is implicit; the conversion back is explicit and rounds to
// nearest even.
//
// Both have the bits of CUDA's __half and __nv_bfloat16, and of the dtypes f16 and bf16 in files.
//
// All functions here take constant time.
#pragma once

#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice {

namespace detail {
// Without a branch, so that compilers vectorise loops over it. A product with a power of two moves the exponent; this
// is right for subnormals as well. A GPU has one instruction for it.
SLUICE_KERNEL constexpr float half_to_float(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) {
        float made = 0.0f;
        asm("cvt.f32.f16 %0, %1;" : "=f"(made) : "h"(bits));
        return made;
    }
#endif
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    const float moved = __builtin_bit_cast(float, rest) * 0x1p112f;
    const std::uint32_t not_finite = rest >= 0x0f80'0000u ? 0x7f80'0000u : 0u;  // infinity or NaN
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, moved) | not_finite | sign);
}

SLUICE_KERNEL constexpr std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t rest = bits & 0x7fff'ffffu;
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) {
        std::uint16_t rounded = 0;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
        // The instruction has one NaN; this one has the bits of a CPU.
        return rest > 0x7f80'0000u ? static_cast<std::uint16_t>(sign | 0x7e00u) : rounded;
    }
#endif
    std::uint32_t made = 0;
    if (rest > 0x7f80'0000u) {
        made = 0x7e00u;  // NaN
    } else if (rest >= 0x477f'f000u) {
        made = 0x7c00u;  // from 65520 on: infinity
    } else if (rest >= 0x3880'0000u) {
        made = (rest - 0x3800'0000u + 0x0fffu + ((rest >> 13) & 1u)) >> 13;
    } else {
        // Subnormal or zero: adding 0.5 lets the float's own rounding do the work; the last place of the sum is 2^-24.
        made = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0.5f) - 0x3f00'0000u;
    }
    return static_cast<std::uint16_t>(sign | made);
}

SLUICE_KERNEL constexpr float bfloat16_to_float(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

SLUICE_KERNEL constexpr std::uint16_t float_to_bfloat16(float value) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // NaN: quiet
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!__builtin_is_constant_evaluated()) {
        std::uint16_t rounded = 0;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
        return rounded;
    }
#endif
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
}  // namespace detail

// IEEE binary16: 11 significant bits, up to 65504.
class half {
public:
    half() = default;
    // Rounds to the nearest half, ties to even; beyond the range it is infinite.
    SLUICE_KERNEL constexpr explicit half(float value) : bits_(detail::float_to_half(value)) {}
    SLUICE_KERNEL constexpr operator float() const { return detail::half_to_float(bits_); }  // exact

    // The number with these bits, as IEEE 754 stores it.
    SLUICE_KERNEL static constexpr half from_bits(std::uint16_t bits) {
        half made(0.0f);
        made.bits_ = bits;
        return made;
    }
    SLUICE_KERNEL constexpr std::uint16_t bits() const { return bits_; }  // as IEEE 754 stores it

private:
    std::uint16_t bits_;
};

// The upper half of an IEEE binary32: 8 significant bits, the range of float.
class bfloat16 {
public:
    bfloat16() = default;
    // Rounds to the nearest bfloat16, ties to even; beyond the range it is infinite.
    SLUICE_KERNEL constexpr explicit bfloat16(float value) : bits_(detail::float_to_bfloat16(value)) {}
    SLUICE_KERNEL constexpr operator float() const { return detail::bfloat16_to_float(bits_); }  // exact

    // The number with these bits: the upper half of a float.
    SLUICE_KERNEL static constexpr bfloat16 from_bits(std::uint16_t bits) {
        bfloat16 made(0.0f);
        made.bits_ = bits;
        return made;
    }
    SLUICE_KERNEL constexpr std::uint16_t bits() const { return bits_; }  // the upper half of a float

private:
    std::uint16_t bits_;
};

}  // namespace sluice
