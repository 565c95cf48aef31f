// SPDX-License-Identifier: Apache-2.0
// Elements whose type is known when the kernel runs: for scales and zero points, and for what is quantized.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/before_rounding.hpp"
#include "nn/operators/in_word.hpp"
#include "nn/operators/node_call.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::nn::operators {

// Element i. 64-bit integers are rounded.
SLUICE_KERNEL inline double number_at(const void* from, io::dtype type, std::size_t i) {
    switch (type) {
        case io::dtype::f16: return static_cast<float>(static_cast<const half*>(from)[i]);
        case io::dtype::bf16: return static_cast<float>(static_cast<const bfloat16*>(from)[i]);
        case io::dtype::f32: return static_cast<const float*>(from)[i];
        case io::dtype::f64: return static_cast<const double*>(from)[i];
        case io::dtype::i8: return static_cast<const std::int8_t*>(from)[i];
        case io::dtype::u8:
        case io::dtype::boolean: return static_cast<const std::uint8_t*>(from)[i];
        case io::dtype::i16: return static_cast<const std::int16_t*>(from)[i];
        case io::dtype::u16: return static_cast<const std::uint16_t*>(from)[i];
        case io::dtype::i32: return static_cast<const std::int32_t*>(from)[i];
        case io::dtype::u32: return static_cast<const std::uint32_t*>(from)[i];
        case io::dtype::i64: return static_cast<double>(static_cast<const std::int64_t*>(from)[i]);
        case io::dtype::u64: return static_cast<double>(static_cast<const std::uint64_t*>(from)[i]);
    }
    return 0;
}

// The number in the precision of this type: rounded, for floating point.
SLUICE_KERNEL inline double rounded_to(io::dtype type, double number) {
    switch (type) {
        case io::dtype::f16: return static_cast<float>(half(sluice::detail::before_rounding(number)));
        case io::dtype::bf16: return static_cast<float>(bfloat16(sluice::detail::before_rounding(number)));
        case io::dtype::f32: return static_cast<float>(number);
        default: return number;
    }
}

// A whole number as the element i, of an integer of 8, 16 or 32 bits or of floating point. Integers saturate; NaN is
// the smallest.
SLUICE_KERNEL inline void write_saturated(void* to, io::dtype type, std::size_t i, double number) {
    const auto limited = [number](double low, double high) {
        return number > low ? (number < high ? number : high) : low;
    };
    switch (type) {
        case io::dtype::f16: static_cast<half*>(to)[i] = half(sluice::detail::before_rounding(number)); return;
        case io::dtype::bf16: static_cast<bfloat16*>(to)[i] = bfloat16(sluice::detail::before_rounding(number)); return;
        case io::dtype::f32: static_cast<float*>(to)[i] = static_cast<float>(number); return;
        case io::dtype::i8: static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(limited(-128, 127)); return;
        case io::dtype::u8: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(limited(0, 255)); return;
        case io::dtype::i16:
            static_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(limited(-32768, 32767));
            return;
        case io::dtype::u16: static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(limited(0, 65535)); return;
        case io::dtype::i32:
            static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(limited(-2147483648.0, 2147483647.0));
            return;
        default: return;
    }
}

// One number, or one for each of several: a scale or a zero point. Null: the same for all.
struct number_list {
    const void* from = nullptr;
    in_word<io::dtype> type = io::dtype::f32;
    in_word<bool> is_one = true;
    double otherwise = 0;

    SLUICE_KERNEL double operator[](std::size_t i) const {
        return from != nullptr ? number_at(from, type, is_one ? 0 : i) : otherwise;
    }
};

inline number_list numbers_from(const node_call& in, std::size_t input, double otherwise) {
    if (!in.has_input(input)) return {.otherwise = otherwise};
    const any_tensor& x = in.input(input);
    return {in.read<void>(x), x.type(), x.elements() == 1, otherwise};
}

}  // namespace sluice::nn::operators
