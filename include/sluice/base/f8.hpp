// SPDX-License-Identifier: Apache-2.0
// f8_e4m3: 8-bit floating point elements of tensors, on the host and in kernels. They are for storage: arithmetic is
// done in float. The conversion to float is implicit; the conversion back is explicit, rounds to nearest even and
// saturates.
//
// A sign, 4 bits of exponent and 3 of mantissa: 4 significant bits, up to 448, steps of 2^-9 below 2^-6. There is no
// infinity. The bits are those of CUDA's __nv_fp8_e4m3, of the dtype F8_E4M3 in safetensors files and of FLOAT8E4M3FN
// in ONNX.
#pragma once

#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice {

namespace detail {
SLUICE_KERNEL constexpr float f8_to_float(std::uint8_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fu) << 20;
    const float moved = __builtin_bit_cast(float, rest) * 0x1p120f;  // right for subnormals as well
    const std::uint32_t not_a_number = rest == 0x07f0'0000u ? 0x7fc0'0000u : 0u;
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, moved) | not_a_number | sign);
}

SLUICE_KERNEL constexpr std::uint8_t float_to_f8(float value) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (bits >> 24) & 0x80u;
    const std::uint32_t rest = bits & 0x7fff'ffffu;
    if (rest > 0x7f80'0000u) return 0x7fu;  // the only NaN that a GPU makes
    std::uint32_t made = 0;
    if (rest >= 0x43e0'0000u) {
        made = 0x7eu;  // from 448 on
    } else if (rest >= 0x3c80'0000u) {
        made = (rest - 0x3c00'0000u + 0x0007'ffffu + ((rest >> 20) & 1u)) >> 20;
    } else {
        // Subnormal or zero: adding 2^14 lets the float's own rounding do the work; the last place of the sum is 2^-9.
        made = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0x1p14f) - 0x4680'0000u;
    }
    return static_cast<std::uint8_t>(sign | made);
}
}  // namespace detail

// E4M3: 4 significant bits, up to 448.
class f8_e4m3 {
public:
    f8_e4m3() = default;
    // Rounds to the nearest, ties to even; beyond the range, infinity too, it is 448 with the sign. NaN stays NaN,
    // without its sign. Costs O(1).
    SLUICE_KERNEL constexpr explicit f8_e4m3(float value) : bits_(detail::float_to_f8(value)) {}
    SLUICE_KERNEL constexpr operator float() const { return detail::f8_to_float(bits_); }  // exact; costs O(1)

    // The number with these bits. 0x7f and 0xff are NaN. Costs O(1).
    SLUICE_KERNEL static constexpr f8_e4m3 from_bits(std::uint8_t bits) {
        f8_e4m3 made(0.0f);
        made.bits_ = bits;
        return made;
    }
    SLUICE_KERNEL constexpr std::uint8_t bits() const { return bits_; }  // sign, exponent, mantissa

private:
    std::uint8_t bits_;
};

}  // namespace sluice
