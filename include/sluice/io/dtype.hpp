// SPDX-License-Identifier: Apache-2.0
// Element types of stored tensors. All of them are little-endian, as the host must be.
//
// All functions here take constant time, but for element_count and byte_count, which are linear in the number of
// dimensions, and convert_to_float, which is linear in that of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "sluice/base/half.hpp"

namespace sluice::io {

// The type of an element: a letter for floating point (f), signed (i) and unsigned integers (u), and the number of
// bits.
enum class dtype {
    f16,   // IEEE binary16
    bf16,  // the upper half of an IEEE binary32
    f32,
    f64,
    i8,
    u8,
    i16,
    u16,
    i32,
    u32,
    i64,
    u64,
    boolean,  // one byte; any value but zero is true
};

// Bytes of one element.
std::size_t size_of(dtype type) noexcept;
// The name: "f32", "bool".
std::string_view to_string(dtype type) noexcept;

// Elements and bytes of a tensor. Empty when the product of the dimensions that are not zero, times the
// element's size, does not fit size_t (so that any part of the shape can be multiplied safely afterwards).
// A shape without dimensions is a scalar: one element.
std::optional<std::size_t> element_count(std::span<const std::size_t> shape) noexcept;
// The bytes of a tensor; empty as for element_count.
std::optional<std::size_t> byte_count(std::span<const std::size_t> shape, dtype type) noexcept;

// Exact: every value of the narrow formats is a float. NaN keeps its sign and payload and becomes quiet.
float f16_to_float(std::uint16_t bits) noexcept;
float bf16_to_float(std::uint16_t bits) noexcept;  // exact, as f16_to_float

// Converts elements of `type` to float, rounding to nearest where a float cannot hold the value (f64 and wide
// integers). `source` needs no alignment. Throws sluice::error (errc::shape_mismatch) unless
// source.size() == target.size() * size_of(type).
void convert_to_float(dtype type, std::span<const std::byte> source, std::span<float> target);

// The dtype that stores a C++ type: dtype_of<float> is dtype::f32.
template <class T>
inline constexpr dtype dtype_of = [] {
    static_assert(std::is_arithmetic_v<T>, "only arithmetic types are stored in tensors");
    if constexpr (std::is_same_v<T, bool>) return dtype::boolean;
    if constexpr (std::is_floating_point_v<T>) {
        static_assert(sizeof(T) <= 8, "long double has no stored form");
        return sizeof(T) == 4 ? dtype::f32 : dtype::f64;
    }
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
        case 1: return is_signed ? dtype::i8 : dtype::u8;
        case 2: return is_signed ? dtype::i16 : dtype::u16;
        case 4: return is_signed ? dtype::i32 : dtype::u32;
        default: return is_signed ? dtype::i64 : dtype::u64;
    }
}();

template <>
inline constexpr dtype dtype_of<half> = dtype::f16;
template <>
inline constexpr dtype dtype_of<bfloat16> = dtype::bf16;

}  // namespace sluice::io
