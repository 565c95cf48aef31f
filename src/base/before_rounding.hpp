// SPDX-License-Identifier: Apache-2.0
// before_rounding: numbers of 64 bits on their way to 16.
#pragma once

#include <concepts>
#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice::detail {

// A float that rounds to 16 bits as the number does: one that float cannot hold is rounded to odd, so it is not taken
// for one that lies between two halves.
SLUICE_KERNEL constexpr float before_rounding(double value) {
    const float made = static_cast<float>(value);
    const double back = made;
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, made), rest = bits & 0x7fff'ffffu;
    if (back == value || value != value || rest == 0x7f80'0000u || (bits & 1u) != 0) return made;
    const bool is_too_large = value < 0 ? back < value : back > value;
    const std::uint32_t sign = __builtin_bit_cast(std::uint64_t, value) >> 63 != 0 ? 0x8000'0000u : 0u;
    return __builtin_bit_cast(float, sign | (is_too_large ? rest - 1 : rest + 1));
}
template <std::integral Number>
SLUICE_KERNEL constexpr float before_rounding(Number value) {
    if constexpr (sizeof(Number) < sizeof(std::uint64_t)) {
        return before_rounding(static_cast<double>(value));
    } else {
        const bool is_negative = value < 0;
        std::uint64_t size = static_cast<std::uint64_t>(value);
        if (is_negative) size = std::uint64_t{0} - size;
        if (size >> 53 != 0) size = (size & ~std::uint64_t{0x7ff}) | ((size & 0x7ff) != 0 ? 0x800u : 0u);
        const double number = static_cast<double>(size);
        return before_rounding(is_negative ? -number : number);
    }
}
SLUICE_KERNEL constexpr float before_rounding(float value) { return value; }

}  // namespace sluice::detail
