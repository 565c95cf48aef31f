// SPDX-License-Identifier: Apache-2.0
// Elements of any type, read and written as one of four kinds of numbers: double, float, std::int64_t and
// std::uint64_t. For kernels that few types deserve instances of. For files that nvcc compiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/before_rounding.hpp"
#include "nn/operators/node_call.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

// Calls function.template operator()<Number>() with the kind that holds all values of the type.
template <typename Function>
void with_number(io::dtype type, const Function& function) {
    if (is_float(type)) return function.template operator()<double>();
    if (type == io::dtype::u64) return function.template operator()<std::uint64_t>();
    function.template operator()<std::int64_t>();
}

// For kernels, which cannot call functions of std::numeric_limits.
template <typename T>
inline constexpr T least_number =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
template <typename T>
inline constexpr T greatest_number =
    std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

inline namespace SLUICE_LAUNCH_ABI {

template <typename Number>
SLUICE_KERNEL Number load_number(const void* from, io::dtype type, std::size_t i) {
    using enum io::dtype;
    switch (type) {
        case f16: return static_cast<Number>(static_cast<float>(static_cast<const half*>(from)[i]));
        case bf16: return static_cast<Number>(static_cast<float>(static_cast<const bfloat16*>(from)[i]));
        case f32: return static_cast<Number>(static_cast<const float*>(from)[i]);
        case f64: return static_cast<Number>(static_cast<const double*>(from)[i]);
        case i8: return static_cast<Number>(static_cast<const std::int8_t*>(from)[i]);
        case u8: return static_cast<Number>(static_cast<const std::uint8_t*>(from)[i]);
        case i16: return static_cast<Number>(static_cast<const std::int16_t*>(from)[i]);
        case u16: return static_cast<Number>(static_cast<const std::uint16_t*>(from)[i]);
        case i32: return static_cast<Number>(static_cast<const std::int32_t*>(from)[i]);
        case u32: return static_cast<Number>(static_cast<const std::uint32_t*>(from)[i]);
        case i64: return static_cast<Number>(static_cast<const std::int64_t*>(from)[i]);
        case u64: return static_cast<Number>(static_cast<const std::uint64_t*>(from)[i]);
        case boolean: return static_cast<Number>(static_cast<const std::uint8_t*>(from)[i] != 0);
    }
    return 0;
}

// A double that an integer cannot hold becomes the nearest one that it can, NaN becomes 0.
SLUICE_KERNEL inline std::int64_t to_signed(double value) {
    if (sluice::detail::is_nan(value)) return 0;
    if (value >= 9223372036854775808.0) return greatest_number<std::int64_t>;
    if (value <= -9223372036854775808.0) return least_number<std::int64_t>;
    return static_cast<std::int64_t>(value);
}
SLUICE_KERNEL inline std::uint64_t to_unsigned(double value) {
    if (!(value > 0)) return static_cast<std::uint64_t>(to_signed(value));
    if (value >= 18446744073709551616.0) return greatest_number<std::uint64_t>;
    return static_cast<std::uint64_t>(value);
}

template <typename Number>
SLUICE_KERNEL void store_number(void* to, io::dtype type, std::size_t i, Number value) {
    using enum io::dtype;
    switch (type) {
        case f16: static_cast<half*>(to)[i] = half(sluice::detail::before_rounding(value)); return;
        case bf16: static_cast<bfloat16*>(to)[i] = bfloat16(sluice::detail::before_rounding(value)); return;
        case f32: static_cast<float*>(to)[i] = static_cast<float>(value); return;
        case f64: static_cast<double*>(to)[i] = static_cast<double>(value); return;
        default: break;
    }
    std::uint64_t bits = 0;
    if constexpr (std::is_floating_point_v<Number>) {
        bits = type == u64 ? to_unsigned(value) : static_cast<std::uint64_t>(to_signed(value));
    } else {
        bits = static_cast<std::uint64_t>(value);
    }
    switch (type) {
        case i8:
        case u8: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(bits); return;
        case i16:
        case u16: static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(bits); return;
        case i32:
        case u32: static_cast<std::uint32_t*>(to)[i] = static_cast<std::uint32_t>(bits); return;
        case boolean: static_cast<std::uint8_t*>(to)[i] = value != 0 ? 1 : 0; return;
        default: static_cast<std::uint64_t*>(to)[i] = bits;
    }
}

// Integers wrap around.
template <typename Number>
SLUICE_KERNEL Number plus(Number a, Number b) {
    if constexpr (std::is_same_v<Number, double>) {
        return a + b;
    } else {
        return static_cast<Number>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
}
template <typename Number>
SLUICE_KERNEL Number times(Number a, Number b) {
    if constexpr (std::is_same_v<Number, double>) {
        return a * b;
    } else {
        return static_cast<Number>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    }
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::operators
