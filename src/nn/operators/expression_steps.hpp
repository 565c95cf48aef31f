// SPDX-License-Identifier: Apache-2.0
// One step of an expression, of one element: what a GPU computes, and a CPU where there is no loop for it
// (expression_loops.hpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/before_rounding.hpp"
#include "nn/operators/opcode.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/half.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {
inline namespace SLUICE_LAUNCH_ABI {

template <typename Number>
inline constexpr bool is_real = std::is_floating_point_v<Number>;

template <typename Number>
SLUICE_KERNEL bool is_negative(Number value) {
    if constexpr (std::is_signed_v<Number>) {
        return value < 0;
    } else {
        return false;
    }
}

// Whole numbers wrap around: they are computed as unsigned ones, since overflow of signed ones is undefined.
template <typename Number, typename Compute>
SLUICE_KERNEL Number wrapping(Number a, Number b, Compute compute) {
    if constexpr (is_real<Number>) {
        return compute(a, b);
    } else {
        return static_cast<Number>(compute(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    }
}
struct plus_each {
    template <typename T>
    SLUICE_KERNEL T operator()(T a, T b) const {
        return a + b;
    }
};
struct minus_each {
    template <typename T>
    SLUICE_KERNEL T operator()(T a, T b) const {
        return a - b;
    }
};
struct times_each {
    template <typename T>
    SLUICE_KERNEL T operator()(T a, T b) const {
        return a * b;
    }
};
template <typename Number>
SLUICE_KERNEL Number negated(Number a) {
    if constexpr (is_real<Number>) {
        return -a;
    } else {
        return wrapping(Number(0), a, minus_each());
    }
}

template <typename Number>
SLUICE_KERNEL Number whole_power(Number base, Number exponent) {
    if constexpr (std::is_signed_v<Number>) {
        if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
    Number result = 1;
    for (; exponent != 0; exponent /= 2) {
        if (exponent % 2 != 0) result = wrapping(result, base, times_each());
        base = wrapping(base, base, times_each());
    }
    return result;
}

template <typename Number>
SLUICE_KERNEL Number apply_real(opcode what, Number a) {
    switch (what) {
        case opcode::square_root: return std::sqrt(a);
        case opcode::exponential: return std::exp(a);
        case opcode::logarithm: return std::log(a);
        case opcode::sine: return std::sin(a);
        case opcode::cosine: return std::cos(a);
        case opcode::tangent: return std::tan(a);
        case opcode::arcsine: return std::asin(a);
        case opcode::arccosine: return std::acos(a);
        case opcode::arctangent: return std::atan(a);
        case opcode::hyperbolic_sine: return std::sinh(a);
        case opcode::hyperbolic_cosine: return std::cosh(a);
        case opcode::hyperbolic_tangent: return std::tanh(a);
        case opcode::inverse_hyperbolic_sine: return std::asinh(a);
        case opcode::inverse_hyperbolic_cosine: return std::acosh(a);
        case opcode::inverse_hyperbolic_tangent: return std::atanh(a);
        case opcode::error_function: return std::erf(a);
        case opcode::floor: return std::floor(a);
        case opcode::ceiling: return std::ceil(a);
        case opcode::round: return std::rint(a);
        case opcode::sigmoid: return 1 / (1 + std::exp(-a));
        // Does not overflow: log(1 + exp(a)) for a > 0 is a + log(1 + exp(-a)).
        case opcode::softplus: return (a > 0 ? a : 0) + std::log1p(std::exp(a > 0 ? -a : a));
        case opcode::is_nan: return sluice::detail::is_nan(a);
        case opcode::is_positive_infinity: return std::isinf(a) && a > 0;
        case opcode::is_negative_infinity: return std::isinf(a) && a < 0;
        case opcode::to_half: return static_cast<Number>(static_cast<float>(half(sluice::detail::before_rounding(a))));
        case opcode::to_bfloat16:
            return static_cast<Number>(static_cast<float>(bfloat16(sluice::detail::before_rounding(a))));
        default: return a;
    }
}

template <typename Number>
SLUICE_KERNEL Number apply_whole(opcode what, Number a, Number b) {
    switch (what) {
        case opcode::bitwise_not: return ~a;
        case opcode::bitwise_and: return a & b;
        case opcode::bitwise_or: return a | b;
        case opcode::bitwise_xor: return a ^ b;
        // By more than there are bits, or by a negative number: nothing of the number is left but its sign.
        case opcode::shift_left:
            return static_cast<std::uint64_t>(b) >= 64 ? 0 : static_cast<Number>(static_cast<std::uint64_t>(a) << b);
        case opcode::shift_right:
            return static_cast<std::uint64_t>(b) >= 64 ? (is_negative(a) ? static_cast<Number>(-1) : 0) : a >> b;
        default: return a;
    }
}

template <typename Number>
SLUICE_KERNEL Number apply_step(opcode what, Number a, Number b, Number c) {
    switch (what) {
        case opcode::negative: return negated(a);
        case opcode::absolute: return is_negative(a) ? negated(a) : (a == 0 ? Number(0) : a);
        case opcode::sign: return a > 0 ? Number(1) : is_negative(a) ? static_cast<Number>(-1) : a;
        case opcode::reciprocal: return a != 0 || is_real<Number> ? Number(1) / a : Number(0);
        case opcode::relu: return is_negative(a) ? Number(0) : a;
        case opcode::logical_not: return a == 0;
        case opcode::add: return wrapping(a, b, plus_each());
        case opcode::subtract: return wrapping(a, b, minus_each());
        case opcode::multiply: return wrapping(a, b, times_each());
        case opcode::divide:
            if constexpr (is_real<Number>) {
                return a / b;
            } else {
                // The smallest number divided by -1 would overflow.
                if (b == 0) return 0;
                return b == static_cast<Number>(-1) && std::is_signed_v<Number> ? negated(a) : a / b;
            }
        case opcode::modulus:
            if constexpr (is_real<Number>) {
                const Number rest = std::fmod(a, b);
                return rest != 0 && is_negative(rest) != is_negative(b) ? rest + b : rest;
            } else {
                if (b == 0 || b == static_cast<Number>(-1)) return b == 0 || std::is_signed_v<Number> ? 0 : a % b;
                const Number rest = a % b;
                return rest != 0 && is_negative(rest) != is_negative(b) ? rest + b : rest;
            }
        case opcode::remainder:
            if constexpr (is_real<Number>) {
                return std::fmod(a, b);
            } else {
                if (b == 0 || (b == static_cast<Number>(-1) && std::is_signed_v<Number>)) return 0;
                return a % b;
            }
        case opcode::power:
            if constexpr (is_real<Number>) {
                return std::pow(a, b);
            } else {
                return whole_power(a, b);
            }
        case opcode::maximum: return sluice::detail::is_nan(a) ? a : sluice::detail::is_nan(b) ? b : (a < b ? b : a);
        case opcode::minimum: return sluice::detail::is_nan(a) ? a : sluice::detail::is_nan(b) ? b : (b < a ? b : a);
        case opcode::logical_and: return a != 0 && b != 0;
        case opcode::logical_or: return a != 0 || b != 0;
        case opcode::logical_xor: return (a != 0) != (b != 0);
        case opcode::less: return a < b;
        case opcode::less_equal: return a <= b;
        case opcode::equal: return a == b;
        case opcode::choose: return a != 0 ? b : c;
        case opcode::limit: return a > b ? (a < c ? a : c) : b;
        default:
            if constexpr (is_real<Number>) {
                return apply_real(what, a);
            } else {
                return apply_whole(what, a, b);
            }
    }
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::nn::operators
