// SPDX-License-Identifier: Apache-2.0
// opcode: what a step of an expression computes (expression.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::nn::operators {

enum class opcode : std::uint8_t {
    constant,  // of expression::constant
    // one operand
    negative,
    absolute,
    square_root,
    exponential,
    logarithm,
    sine,
    cosine,
    tangent,
    arcsine,
    arccosine,
    arctangent,
    hyperbolic_sine,
    hyperbolic_cosine,
    hyperbolic_tangent,
    inverse_hyperbolic_sine,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_tangent,
    error_function,
    floor,
    ceiling,
    round,  // to nearest, halves to even
    sign,
    reciprocal,
    relu,
    sigmoid,
    softplus,
    logical_not,
    bitwise_not,
    is_nan,
    is_positive_infinity,
    is_negative_infinity,
    to_half,  // rounded as an element of this type is
    to_bfloat16,
    // two operands
    add,
    subtract,
    multiply,
    divide,
    modulus,    // has the sign of the divisor
    remainder,  // has the sign of the dividend
    power,
    maximum,  // NaN if one is
    minimum,
    logical_and,
    logical_or,
    logical_xor,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right,
    less,
    less_equal,
    equal,
    // three operands
    choose,  // the second if the first is not 0, else the third
    limit,   // the first, at least the second and at most the third; the second for NaN
};
inline constexpr std::size_t opcodes = static_cast<std::size_t>(opcode::limit) + 1;

}  // namespace sluice::nn::operators
