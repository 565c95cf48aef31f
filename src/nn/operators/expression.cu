// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/expression.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "nn/operators/launch_each.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

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

// --- one step ----------------------------------------------------------------------------------------------------

template <typename Number>
SLUICE_KERNEL Number whole_power(Number base, Number exponent) {
    if constexpr (std::is_signed_v<Number>) {
        if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
    Number result = 1;
    for (; exponent != 0; exponent /= 2) {
        if (exponent % 2 != 0) result *= base;
        base *= base;
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
        case opcode::is_nan: return a != a;
        case opcode::is_positive_infinity: return std::isinf(a) && a > 0;
        case opcode::is_negative_infinity: return std::isinf(a) && a < 0;
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
        case opcode::negative: return -a;
        case opcode::absolute: return is_negative(a) ? -a : (a == 0 ? Number(0) : a);
        case opcode::sign: return a > 0 ? Number(1) : is_negative(a) ? static_cast<Number>(-1) : a;
        case opcode::reciprocal: return a != 0 || is_real<Number> ? Number(1) / a : Number(0);
        case opcode::relu: return is_negative(a) ? Number(0) : a;
        case opcode::logical_not: return a == 0;
        case opcode::add: return a + b;
        case opcode::subtract: return a - b;
        case opcode::multiply: return a * b;
        case opcode::divide:
            if constexpr (is_real<Number>) {
                return a / b;
            } else {
                // The smallest number divided by -1 would overflow.
                if (b == 0) return 0;
                return b == static_cast<Number>(-1) && std::is_signed_v<Number> ? Number(0) - a : a / b;
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
        case opcode::maximum: return a != a ? a : b != b ? b : (a < b ? b : a);
        case opcode::minimum: return a != a ? a : b != b ? b : (b < a ? b : a);
        case opcode::logical_and: return a != 0 && b != 0;
        case opcode::logical_or: return a != 0 || b != 0;
        case opcode::logical_xor: return (a != 0) != (b != 0);
        case opcode::less: return a < b;
        case opcode::less_equal: return a <= b;
        case opcode::equal: return a == b;
        case opcode::choose: return a != 0 ? b : c;
        default:
            if constexpr (is_real<Number>) {
                return apply_real(what, a);
            } else {
                return apply_whole(what, a, b);
            }
    }
}

// --- reading and writing -----------------------------------------------------------------------------------------

template <typename Number>
SLUICE_KERNEL Number read_as(const void* from, io::dtype type, std::size_t i) {
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

// Into an integer: numbers that it cannot hold become the nearest one, NaN becomes 0 (as PTX and most runtimes do).
template <typename Number>
SLUICE_KERNEL std::int64_t whole(Number value) {
    if constexpr (is_real<Number>) {
        if (value != value) return 0;
        if (value >= Number(9223372036854775808.0)) return INT64_MAX;
        if (value <= Number(-9223372036854775808.0)) return INT64_MIN;
    }
    return static_cast<std::int64_t>(value);
}
template <typename Number>
SLUICE_KERNEL std::uint64_t unsigned_whole(Number value) {
    if constexpr (is_real<Number>) {
        if (!(value > Number(0))) return static_cast<std::uint64_t>(whole(value));
        if (value >= Number(18446744073709551616.0)) return UINT64_MAX;
    }
    return static_cast<std::uint64_t>(value);
}

template <typename Number>
SLUICE_KERNEL void write_as(void* to, io::dtype type, std::size_t i, Number value) {
    using enum io::dtype;
    switch (type) {
        case f16: static_cast<half*>(to)[i] = half(static_cast<float>(value)); return;
        case bf16: static_cast<bfloat16*>(to)[i] = bfloat16(static_cast<float>(value)); return;
        case f32: static_cast<float*>(to)[i] = static_cast<float>(value); return;
        case f64: static_cast<double*>(to)[i] = static_cast<double>(value); return;
        case i8: static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(whole(value)); return;
        case u8: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(whole(value)); return;
        case i16: static_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(whole(value)); return;
        case u16: static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(whole(value)); return;
        case i32: static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(whole(value)); return;
        case u32: static_cast<std::uint32_t*>(to)[i] = static_cast<std::uint32_t>(whole(value)); return;
        case i64: static_cast<std::int64_t*>(to)[i] = whole(value); return;
        case u64: static_cast<std::uint64_t*>(to)[i] = unsigned_whole(value); return;
        case boolean: static_cast<std::uint8_t*>(to)[i] = value != 0 ? 1 : 0; return;
    }
}

// --- the kernel --------------------------------------------------------------------------------------------------

// On a CPU each index is a block of elements, so that a step is a loop over an array; on a GPU it is one element.
constexpr std::size_t block = 128;

template <typename Number>
struct expression_kernel {
    expression_program all;

    SLUICE_KERNEL std::size_t place_of(std::size_t input, std::size_t i) const {
        if (all.is_dense[input]) return i;
        std::size_t at = 0;
        for (std::size_t d = all.rank; d-- > 0;) {
            at += i % all.lengths[d] * all.from_strides[input][d];
            i /= all.lengths[d];
        }
        return at;
    }

    SLUICE_KERNEL void operator()(std::size_t index) const {
#if defined(__CUDA_ARCH__)
        Number values[expression_program::max_inputs + expression_program::max_steps];
        for (std::size_t k = 0; k < all.inputs; ++k)
            values[k] = read_as<Number>(all.from[k], all.from_type[k], place_of(k, index));
        for (std::size_t k = 0; k < all.steps; ++k) {
            const auto& step = all.code[k];
            values[all.inputs + k] = step.what == opcode::constant ? static_cast<Number>(all.constants[step.a])
                                                                   : apply_step<Number>(step.what, values[step.a],
                                                                                        values[step.b], values[step.c]);
        }
        for (std::size_t k = 0; k < all.outputs; ++k)
            write_as<Number>(all.to[k], all.to_type[k], index, values[all.to_register[k]]);
#else
        Number values[expression_program::max_inputs + expression_program::max_steps][block];
        const std::size_t first = index * block, size = all.count - first < block ? all.count - first : block;
        for (std::size_t k = 0; k < all.inputs; ++k) {
            if (all.is_dense[k] && all.from_type[k] == io::dtype::f32) {
                const auto* const from = static_cast<const float*>(all.from[k]) + first;
                for (std::size_t i = 0; i < size; ++i) values[k][i] = static_cast<Number>(from[i]);
            } else if (all.is_dense[k]) {
                for (std::size_t i = 0; i < size; ++i)
                    values[k][i] = read_as<Number>(all.from[k], all.from_type[k], first + i);
            } else {
                read_broadcast(k, first, size, values[k]);
            }
        }
        for (std::size_t k = 0; k < all.steps; ++k) {
            const auto step = all.code[k];
            Number* const made = values[all.inputs + k];
            if (step.what == opcode::constant) {
                for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<Number>(all.constants[step.a]);
                continue;
            }
            apply_block(step.what, values[step.a], values[step.b], values[step.c], made, size);
        }
        for (std::size_t k = 0; k < all.outputs; ++k) {
            const Number* const made = values[all.to_register[k]];
            if (all.to_type[k] == io::dtype::f32) {
                auto* const to = static_cast<float*>(all.to[k]) + first;
                for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<float>(made[i]);
            } else {
                for (std::size_t i = 0; i < size; ++i) write_as<Number>(all.to[k], all.to_type[k], first + i, made[i]);
            }
        }
#endif
    }

private:
    // Counts the coordinates up, without a division for each element.
    void read_broadcast(std::size_t input, std::size_t first, std::size_t size, Number* to) const {
        std::size_t coordinates[expression_program::max_rank];
        for (std::size_t d = all.rank, rest = first; d-- > 0; rest /= all.lengths[d])
            coordinates[d] = rest % all.lengths[d];
        std::size_t at = place_of(input, first);
        const std::size_t* const strides = all.from_strides[input];
        for (std::size_t i = 0; i < size; ++i) {
            to[i] = read_as<Number>(all.from[input], all.from_type[input], at);
            for (std::size_t d = all.rank; d-- > 0;) {
                at += strides[d];
                if (++coordinates[d] < all.lengths[d]) break;
                at -= all.lengths[d] * strides[d];
                coordinates[d] = 0;
            }
        }
    }

    template <opcode What>
    static void loop(const Number* a, const Number* b, const Number* c, Number* made, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) made[i] = apply_step<Number>(What, a[i], b[i], c[i]);
    }
    // The steps that are worth a loop of their own, which the compiler vectorises.
    static void apply_block(opcode what, const Number* a, const Number* b, const Number* c, Number* made,
                            std::size_t size) {
        switch (what) {
            case opcode::add: return loop<opcode::add>(a, b, c, made, size);
            case opcode::subtract: return loop<opcode::subtract>(a, b, c, made, size);
            case opcode::multiply: return loop<opcode::multiply>(a, b, c, made, size);
            case opcode::divide: return loop<opcode::divide>(a, b, c, made, size);
            case opcode::relu: return loop<opcode::relu>(a, b, c, made, size);
            case opcode::maximum: return loop<opcode::maximum>(a, b, c, made, size);
            case opcode::minimum: return loop<opcode::minimum>(a, b, c, made, size);
            case opcode::less: return loop<opcode::less>(a, b, c, made, size);
            case opcode::equal: return loop<opcode::equal>(a, b, c, made, size);
            case opcode::choose: return loop<opcode::choose>(a, b, c, made, size);
            default:
                for (std::size_t i = 0; i < size; ++i) made[i] = apply_step<Number>(what, a[i], b[i], c[i]);
        }
    }
};

template <typename Number>
void run_as(const node_call& in, const expression_program& program, const std::vector<any_tensor>& inputs,
            const std::vector<any_tensor>& outputs) {
    const bool is_gpu = in.where() == place::device && in.context().device().kind() == device_kind::cuda;
    const std::size_t indices = is_gpu ? program.count : (program.count + block - 1) / block;
    const auto part = [](const std::vector<any_tensor>& of, std::size_t i) { return &of[i < of.size() ? i : 0]; };
    static const any_tensor nothing;
    const auto read = [&](std::size_t i) { return inputs.empty() ? &nothing : part(inputs, i); };
    each(in, indices, expression_kernel<Number>{program},
         {read(0), read(1), read(2), read(3), read(4), read(5), read(6), read(7)},
         {part(outputs, 0), part(outputs, 1), part(outputs, 2), part(outputs, 3)});
}

}  // namespace

expression::value expression::input(const any_tensor& from) {
    if (program_.inputs == expression_program::max_inputs || program_.steps != 0)
        throw error(errc::invalid_argument, "an expression has at most 8 inputs, before its steps", {"expression"});
    shape_ = inputs_.empty() ? from.shape() : broadcast(in_, shape_, from.shape());
    inputs_.push_back(from);
    return program_.inputs++;
}

expression::value expression::constant(double number) {
    if (constants_ == expression_program::max_constants)
        throw error(errc::invalid_argument, "an expression has too many constants", {"expression"});
    program_.constants[constants_] = number;
    const auto at = static_cast<value>(constants_++);
    return apply(opcode::constant, at, at, at);
}

expression::value expression::apply(opcode what, value a, value b, value c) {
    if (program_.steps == expression_program::max_steps)
        throw error(errc::invalid_argument, "an expression has too many steps", {"expression"});
    program_.code[program_.steps] = {what, a, b, c};
    return static_cast<value>(program_.inputs + program_.steps++);
}

void expression::give(std::size_t output, io::dtype type, value what) {
    give(in_.make_output(output, type, shape_), what);
}

void expression::give(const any_tensor& to, value what) {
    if (program_.outputs == expression_program::max_outputs)
        throw error(errc::invalid_argument, "an expression has too many outputs", {"expression"});
    program_.to_register[program_.outputs++] = what;
    outputs_.push_back(to);
}

// Neighbouring dimensions in which all inputs move alike become one.
void expression::set_strides() {
    std::vector<lengths> strides;
    for (const any_tensor& each : inputs_) {
        lengths own = strides_of(each.shape()), made(shape_.size(), 0);
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (each.shape()[i] != 1) made[shape_.size() - own.size() + i] = own[i];
        }
        strides.push_back(std::move(made));
    }
    lengths merged;
    std::vector<lengths> merged_strides(inputs_.size());
    for (std::size_t d = 0; d < shape_.size(); ++d) {
        if (shape_[d] == 1) continue;
        const bool continues = !merged.empty() && std::ranges::all_of(strides, [&](const lengths& of) {
            const std::size_t k = static_cast<std::size_t>(&of - strides.data());
            return merged_strides[k].back() == of[d] * shape_[d];
        });
        if (continues) {
            merged.back() *= shape_[d];
            for (std::size_t k = 0; k < strides.size(); ++k) merged_strides[k].back() = strides[k][d];
        } else {
            merged.push_back(shape_[d]);
            for (std::size_t k = 0; k < strides.size(); ++k) merged_strides[k].push_back(strides[k][d]);
        }
    }
    if (merged.size() > expression_program::max_rank) in_.refuse_unsupported("broadcasts in more than 6 dimensions");
    program_.rank = static_cast<std::uint8_t>(merged.size());
    std::ranges::copy(merged, program_.lengths);
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
        std::ranges::copy(merged_strides[k], program_.from_strides[k]);
        program_.is_dense[k] = inputs_[k].elements() == program_.count;
    }
}

void expression::run() {
    program_.count = product_of(shape_);
    if (program_.count == 0 || in_.where() == place::nowhere) return;
    set_strides();
    bool has_real = false, has_double = false, has_whole = false, has_unsigned = false, has_mixed_sign = false;
    const auto note = [&](io::dtype type) {
        has_double |= type == io::dtype::f64;
        has_real |= is_float(type);
        has_unsigned |= type == io::dtype::u64;
        has_whole |= !is_float(type) && type != io::dtype::boolean;
        has_mixed_sign |=
            type == io::dtype::i64 || type == io::dtype::i32 || type == io::dtype::i16 || type == io::dtype::i8;
    };
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
        program_.from[k] = in_.read<void>(inputs_[k]);
        note(program_.from_type[k] = inputs_[k].type());
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
        program_.to[k] = in_.write<void>(outputs_[k]);
        note(program_.to_type[k] = outputs_[k].type());
    }
    if (has_double || (has_real && has_whole)) return run_as<double>(in_, program_, inputs_, outputs_);
    if (has_real) return run_as<float>(in_, program_, inputs_, outputs_);
    if (has_unsigned && !has_mixed_sign) return run_as<std::uint64_t>(in_, program_, inputs_, outputs_);
    run_as<std::int64_t>(in_, program_, inputs_, outputs_);
}

}  // namespace sluice::nn::operators
