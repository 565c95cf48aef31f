// SPDX-License-Identifier: Apache-2.0
// The loops of expression_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
// The compiler vectorises them; it may assume that no code asks for the processor's flags of floating point
// (-fno-trapping-math, -fno-math-errno).
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nn/operators/expression_loops.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::nn::operators {
namespace {

template <typename Number>
constexpr bool is_real_number = std::is_floating_point_v<Number>;

// Whole numbers are computed as unsigned ones, since overflow of signed ones is undefined.
template <typename Number>
using wrapped = std::conditional_t<std::is_floating_point_v<Number>, Number, std::uint64_t>;

// --- steps -------------------------------------------------------------------------------------------------------

template <typename Number>
[[gnu::always_inline]] inline bool is_below_zero(Number a) {
    if constexpr (std::is_unsigned_v<Number>) {
        return false;
    } else {
        return a < 0;
    }
}
template <typename Number>
[[gnu::always_inline]] inline Number negated_number(Number a) {
    if constexpr (is_real_number<Number>) {
        return -a;
    } else {
        return static_cast<Number>(0 - static_cast<std::uint64_t>(a));
    }
}

// With NaN if one is NaN.
template <typename Number>
[[gnu::always_inline]] inline Number larger(Number a, Number b) {
    if constexpr (is_real_number<Number>) {
        const Number made = a < b ? b : a;  // a, if one is NaN
        return b != b && a == a ? b : made;
    } else {
        return a < b ? b : a;
    }
}
template <typename Number>
[[gnu::always_inline]] inline Number smaller(Number a, Number b) {
    if constexpr (is_real_number<Number>) {
        const Number made = b < a ? b : a;
        return b != b && a == a ? b : made;
    } else {
        return b < a ? b : a;
    }
}

// As sluice/base/half.hpp has them, with choices in place of branches.
[[gnu::always_inline]] inline float half_number(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    const float moved = __builtin_bit_cast(float, rest) * 0x1p112f;
    const std::uint32_t not_finite = rest >= 0x0f80'0000u ? 0x7f80'0000u : 0u;  // infinity or NaN
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, moved) | not_finite | sign);
}
[[gnu::always_inline]] inline std::uint16_t half_bits(float x) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x), sign = (bits >> 16) & 0x8000u;
    const std::uint32_t rest = bits & 0x7fff'ffffu;
    const std::uint32_t normal = (rest - 0x3800'0000u + 0x0fffu + ((rest >> 13) & 1u)) >> 13;
    const std::uint32_t subnormal =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0.5f) - 0x3f00'0000u;
    std::uint32_t made = rest >= 0x3880'0000u ? normal : subnormal;
    made = rest >= 0x477f'f000u ? 0x7c00u : made;  // from 65520 on: infinity
    made = rest > 0x7f80'0000u ? 0x7e00u : made;   // NaN
    return static_cast<std::uint16_t>(sign | made);
}
[[gnu::always_inline]] inline float bfloat16_number(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}
[[gnu::always_inline]] inline std::uint16_t bfloat16_bits(float x) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    return static_cast<std::uint16_t>((bits & 0x7fff'ffffu) > 0x7f80'0000u ? quiet : rounded);
}

template <opcode What, typename Number>
constexpr bool has_loop() {
    switch (What) {
        case opcode::negative:
        case opcode::absolute:
        case opcode::sign:
        case opcode::relu:
        case opcode::logical_not:
        case opcode::add:
        case opcode::subtract:
        case opcode::multiply:
        case opcode::maximum:
        case opcode::minimum:
        case opcode::logical_and:
        case opcode::logical_or:
        case opcode::logical_xor:
        case opcode::less:
        case opcode::less_equal:
        case opcode::equal:
        case opcode::choose:
        case opcode::limit: return true;
        case opcode::reciprocal:
        case opcode::divide:
        case opcode::square_root:
        case opcode::floor:
        case opcode::ceiling:
        case opcode::round:
        case opcode::is_nan:
        case opcode::is_positive_infinity:
        case opcode::is_negative_infinity: return is_real_number<Number>;
        case opcode::to_half:
        case opcode::to_bfloat16: return std::is_same_v<Number, float>;
        case opcode::bitwise_not:
        case opcode::bitwise_and:
        case opcode::bitwise_or:
        case opcode::bitwise_xor: return !is_real_number<Number>;
        default: return false;
    }
}

template <opcode What, typename Number>
[[gnu::always_inline]] inline Number real_step(Number a, [[maybe_unused]] Number b) {
    constexpr Number infinity = __builtin_inff();
    constexpr bool is_single = std::is_same_v<Number, float>;
    if constexpr (What == opcode::reciprocal) return 1 / a;
    if constexpr (What == opcode::divide) return a / b;
    if constexpr (What == opcode::square_root && is_single) return __builtin_sqrtf(a);
    if constexpr (What == opcode::square_root && !is_single) return __builtin_sqrt(a);
    if constexpr (What == opcode::floor && is_single) return __builtin_floorf(a);
    if constexpr (What == opcode::floor && !is_single) return __builtin_floor(a);
    if constexpr (What == opcode::ceiling && is_single) return __builtin_ceilf(a);
    if constexpr (What == opcode::ceiling && !is_single) return __builtin_ceil(a);
    if constexpr (What == opcode::round && is_single) return __builtin_rintf(a);
    if constexpr (What == opcode::round && !is_single) return __builtin_rint(a);
    if constexpr (What == opcode::is_nan) return a != a ? Number(1) : Number(0);
    if constexpr (What == opcode::is_positive_infinity) return a == infinity ? Number(1) : Number(0);
    if constexpr (What == opcode::is_negative_infinity) return a == -infinity ? Number(1) : Number(0);
    if constexpr (What == opcode::to_half) return half_number(half_bits(a));
    if constexpr (What == opcode::to_bfloat16) return bfloat16_number(bfloat16_bits(a));
}

template <opcode What, typename Number>
[[gnu::always_inline]] inline Number whole_step(Number a, [[maybe_unused]] Number b) {
    if constexpr (What == opcode::bitwise_not) return ~a;
    if constexpr (What == opcode::bitwise_and) return a & b;
    if constexpr (What == opcode::bitwise_or) return a | b;
    if constexpr (What == opcode::bitwise_xor) return a ^ b;
}

template <opcode What, typename Number>
[[gnu::always_inline]] inline Number any_step(Number a, [[maybe_unused]] Number b, [[maybe_unused]] Number c) {
    using wide = wrapped<Number>;
    constexpr Number zero = 0, one = 1;
    if constexpr (What == opcode::negative) {
        return negated_number(a);
    } else if constexpr (What == opcode::absolute) {
        return is_below_zero(a) ? negated_number(a) : (a == zero ? zero : a);
    } else if constexpr (What == opcode::sign) {
        return a > zero ? one : is_below_zero(a) ? negated_number(one) : a;
    } else if constexpr (What == opcode::relu) {
        return is_below_zero(a) ? zero : a;
    } else if constexpr (What == opcode::logical_not) {
        return a == zero ? one : zero;
    } else if constexpr (What == opcode::add) {
        return static_cast<Number>(static_cast<wide>(a) + static_cast<wide>(b));
    } else if constexpr (What == opcode::subtract) {
        return static_cast<Number>(static_cast<wide>(a) - static_cast<wide>(b));
    } else if constexpr (What == opcode::multiply) {
        return static_cast<Number>(static_cast<wide>(a) * static_cast<wide>(b));
    } else if constexpr (What == opcode::maximum) {
        return larger(a, b);
    } else if constexpr (What == opcode::minimum) {
        return smaller(a, b);
    } else if constexpr (What == opcode::logical_and) {
        return ((a != zero) & (b != zero)) ? one : zero;
    } else if constexpr (What == opcode::logical_or) {
        return ((a != zero) | (b != zero)) ? one : zero;
    } else if constexpr (What == opcode::logical_xor) {
        return (a != zero) != (b != zero) ? one : zero;
    } else if constexpr (What == opcode::less) {
        return a < b ? one : zero;
    } else if constexpr (What == opcode::less_equal) {
        return a <= b ? one : zero;
    } else if constexpr (What == opcode::equal) {
        return a == b ? one : zero;
    } else if constexpr (What == opcode::choose) {
        return a != zero ? b : c;
    } else if constexpr (What == opcode::limit) {
        const Number below = a < c ? a : c;
        return a > b ? below : b;
    } else if constexpr (is_real_number<Number>) {
        return real_step<What>(a, b);
    } else {
        return whole_step<What>(a, b);
    }
}

template <opcode What, typename Number>
void step_loop(const Number* a, const Number* b, const Number* c, Number* made, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) made[i] = any_step<What>(a[i], b[i], c[i]);
}

// --- elements ----------------------------------------------------------------------------------------------------

template <io::dtype Type>
struct element_of;
template <>
struct element_of<io::dtype::f32> : std::type_identity<float> {};
template <>
struct element_of<io::dtype::f64> : std::type_identity<double> {};
template <>
struct element_of<io::dtype::i8> : std::type_identity<std::int8_t> {};
template <>
struct element_of<io::dtype::u8> : std::type_identity<std::uint8_t> {};
template <>
struct element_of<io::dtype::i16> : std::type_identity<std::int16_t> {};
template <>
struct element_of<io::dtype::u16> : std::type_identity<std::uint16_t> {};
template <>
struct element_of<io::dtype::i32> : std::type_identity<std::int32_t> {};
template <>
struct element_of<io::dtype::u32> : std::type_identity<std::uint32_t> {};
template <>
struct element_of<io::dtype::i64> : std::type_identity<std::int64_t> {};
template <>
struct element_of<io::dtype::u64> : std::type_identity<std::uint64_t> {};
template <>
struct element_of<io::dtype::boolean> : std::type_identity<std::uint8_t> {};

template <io::dtype Type, typename Number>
void read_loop(const void* from, Number* to, std::size_t count) noexcept {
    const auto* const x = static_cast<const typename element_of<Type>::type*>(from);
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (Type == io::dtype::boolean) {
            to[i] = x[i] != 0 ? Number(1) : Number(0);
        } else {
            to[i] = static_cast<Number>(x[i]);
        }
    }
}

template <io::dtype Type, typename Number>
void write_loop(const Number* from, void* to, std::size_t count) noexcept {
    auto* const y = static_cast<typename element_of<Type>::type*>(to);
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (Type == io::dtype::boolean) {
            y[i] = from[i] != 0 ? 1 : 0;
        } else {
            y[i] = static_cast<typename element_of<Type>::type>(from[i]);
        }
    }
}

// 16-bit floating point.
template <io::dtype Type>
void read_half_loop(const void* from, float* to, std::size_t count) noexcept {
    const auto* const x = static_cast<const std::uint16_t*>(from);
    for (std::size_t i = 0; i < count; ++i) to[i] = Type == io::dtype::f16 ? half_number(x[i]) : bfloat16_number(x[i]);
}
template <io::dtype Type>
void write_half_loop(const float* from, void* to, std::size_t count) noexcept {
    auto* const y = static_cast<std::uint16_t*>(to);
    for (std::size_t i = 0; i < count; ++i) y[i] = Type == io::dtype::f16 ? half_bits(from[i]) : bfloat16_bits(from[i]);
}

// Where all numbers of the loop fit into 32 bits, they need no bounds.
template <io::dtype Type, typename Number>
void write_whole_loop(const Number* from, void* to, std::size_t count) noexcept {
    using element = typename element_of<Type>::type;
    auto* const y = static_cast<element*>(to);
    constexpr Number most = std::is_same_v<Number, float> ? 2147483520.0f : 2147483647.0;
    constexpr double edge = 9223372036854775808.0;
    unsigned large = 0;  // (of a bool, g++ makes no vector)
    for (std::size_t i = 0; i < count; ++i) large |= (from[i] >= -most ? 0u : 1u) | (from[i] <= most ? 0u : 1u);
    if (large == 0) {
        for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<element>(static_cast<std::int32_t>(from[i]));
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const auto x = static_cast<double>(from[i]);
        std::uint64_t bits = 0;  // of NaN
        if (Type == io::dtype::u64 && x >= edge) {
            bits = x >= 2 * edge ? ~std::uint64_t{0} : static_cast<std::uint64_t>(x);
        } else if (x >= edge) {
            bits = ~std::uint64_t{0} >> 1;
        } else if (x <= -edge) {
            bits = std::uint64_t{1} << 63;
        } else if (x == x) {
            bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
        }
        y[i] = static_cast<element>(bits);
    }
}

// --- tables ------------------------------------------------------------------------------------------------------

template <typename Number, std::size_t What = 0>
constexpr void set_steps(number_loops<Number>& to) {
    if constexpr (What < opcodes) {
        constexpr auto what = static_cast<opcode>(What);
        if constexpr (has_loop<what, Number>()) to.steps[What] = &step_loop<what, Number>;
        set_steps<Number, What + 1>(to);
    }
}

template <typename Number, std::size_t Type = 0>
constexpr void set_elements(number_loops<Number>& to) {
    if constexpr (Type < element_types) {
        constexpr auto type = static_cast<io::dtype>(Type);
        constexpr bool is_half = type == io::dtype::f16 || type == io::dtype::bf16;
        if constexpr (is_half) {
            if constexpr (std::is_same_v<Number, float>) {
                to.read[Type] = &read_half_loop<type>;
                to.write[Type] = &write_half_loop<type>;
            }
        } else {
            constexpr bool is_float = type == io::dtype::f32 || type == io::dtype::f64;
            constexpr bool is_same = std::is_same_v<Number, typename element_of<type>::type>;
            if constexpr (!is_same && (is_real_number<Number> || !is_float)) to.read[Type] = &read_loop<type, Number>;
            if constexpr (is_same) {
            } else if constexpr (is_float || type == io::dtype::boolean || !is_real_number<Number>) {
                to.write[Type] = &write_loop<type, Number>;
            } else {
                to.write[Type] = &write_whole_loop<type, Number>;
            }
        }
        set_elements<Number, Type + 1>(to);
    }
}

template <typename Number>
constexpr number_loops<Number> loops_of() {
    number_loops<Number> made{};
    set_steps(made);
    set_elements(made);
    return made;
}

constexpr expression_loops expression_loops_of_this_unit = {loops_of<float>(), loops_of<double>(),
                                                            loops_of<std::int64_t>(), loops_of<std::uint64_t>()};

}  // namespace
}  // namespace sluice::nn::operators
