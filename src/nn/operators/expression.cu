// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/expression.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/elementwise/vector_math.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/numbers.hpp"
#include "sluice/base/detail/is_nan.hpp"
#include "sluice/base/half.hpp"
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

// --- one step ----------------------------------------------------------------------------------------------------

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
        case opcode::to_half: return static_cast<Number>(static_cast<float>(half(static_cast<float>(a))));
        case opcode::to_bfloat16: return static_cast<Number>(static_cast<float>(bfloat16(static_cast<float>(a))));
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
        default:
            if constexpr (is_real<Number>) {
                return apply_real(what, a);
            } else {
                return apply_whole(what, a, b);
            }
    }
}

// --- the kernel --------------------------------------------------------------------------------------------------

// On a CPU each index is a block of elements, so that a step is a loop over an array; on a GPU it is one element.
constexpr std::size_t block = 128;

template <typename Number>
struct expression_kernel {
    static constexpr std::size_t numbers_of_part = 256;  // blocks

    expression_program all;

    SLUICE_KERNEL std::size_t place_of(std::size_t input, std::size_t i) const {
        if (all.is_dense[input]) return i;
        std::size_t at = 0;
#if defined(__CUDA_ARCH__)
        if (i >> 32 == 0) {  // a division of 64 bits takes several times as long
            auto rest = static_cast<std::uint32_t>(i);
            for (std::size_t d = all.rank; d-- > 0;) {
                if (all.lengths[d] > rest) {
                    at += rest * all.from_strides[input][d];
                    break;
                }
                const auto length = static_cast<std::uint32_t>(all.lengths[d]);
                at += rest % length * all.from_strides[input][d];
                rest /= length;
            }
            return at;
        }
#endif
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
            values[k] = load_number<Number>(all.from[k], all.from_type[k], place_of(k, index));
        for (std::size_t k = 0; k < all.steps; ++k) {
            const auto& step = all.code[k];
            values[all.inputs + k] = step.what == opcode::constant ? static_cast<Number>(all.constants[step.a])
                                                                   : apply_step<Number>(step.what, values[step.a],
                                                                                        values[step.b], values[step.c]);
        }
        for (std::size_t k = 0; k < all.outputs; ++k)
            store_number<Number>(all.to[k], all.to_type[k], index, values[all.to_register[k]]);
#else
        Number values[expression_program::max_inputs + expression_program::max_steps][block];
        const std::size_t first = index * block, size = all.count - first < block ? all.count - first : block;
        for (std::size_t k = 0; k < all.inputs; ++k) read_block(k, first, size, values[k]);
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
                for (std::size_t i = 0; i < size; ++i)
                    store_number<Number>(all.to[k], all.to_type[k], first + i, made[i]);
            }
        }
#endif
    }

private:
    // Elements first, first + 1, ... of the input as it is broadcast: run by run of the last dimension.
    void read_block(std::size_t input, std::size_t first, std::size_t size, Number* to) const {
        if (all.is_dense[input]) return read_run(input, first, 1, size, to);
        const std::size_t* const strides = all.from_strides[input];
        const std::size_t last = all.rank - 1;  // of rank 0 there is one element, which is dense
        std::size_t coordinates[expression_program::max_rank];
        for (std::size_t d = all.rank, rest = first; d-- > 0; rest /= all.lengths[d])
            coordinates[d] = rest % all.lengths[d];
        std::size_t at = place_of(input, first);
        for (std::size_t i = 0; i < size;) {
            const std::size_t of_run = all.lengths[last] - coordinates[last], left = size - i;
            const std::size_t run = of_run < left ? of_run : left;
            read_run(input, at, strides[last], run, to + i);
            i += run;
            if (run < of_run) return;
            at -= coordinates[last] * strides[last];
            coordinates[last] = 0;
            for (std::size_t d = last; d-- > 0;) {
                at += strides[d];
                if (++coordinates[d] < all.lengths[d]) break;
                at -= all.lengths[d] * strides[d];
                coordinates[d] = 0;
            }
        }
    }
    void read_run(std::size_t input, std::size_t at, std::size_t stride, std::size_t size, Number* to) const {
        const void* const from = all.from[input];
        const io::dtype type = all.from_type[input];
        if (stride == 0) {
            const Number one = load_number<Number>(from, type, at);
            for (std::size_t i = 0; i < size; ++i) to[i] = one;
        } else if (type == io::dtype::f32 && stride == 1) {
            const float* const numbers = static_cast<const float*>(from) + at;
            for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<Number>(numbers[i]);
        } else {
            for (std::size_t i = 0; i < size; ++i) to[i] = load_number<Number>(from, type, at + i * stride);
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
            case opcode::negative: return loop<opcode::negative>(a, b, c, made, size);
            case opcode::absolute: return loop<opcode::absolute>(a, b, c, made, size);
            case opcode::reciprocal: return loop<opcode::reciprocal>(a, b, c, made, size);
            case opcode::add: return loop<opcode::add>(a, b, c, made, size);
            case opcode::subtract: return loop<opcode::subtract>(a, b, c, made, size);
            case opcode::multiply: return loop<opcode::multiply>(a, b, c, made, size);
            case opcode::divide: return loop<opcode::divide>(a, b, c, made, size);
            case opcode::relu: return loop<opcode::relu>(a, b, c, made, size);
            case opcode::maximum: return loop<opcode::maximum>(a, b, c, made, size);
            case opcode::minimum: return loop<opcode::minimum>(a, b, c, made, size);
            case opcode::less: return loop<opcode::less>(a, b, c, made, size);
            case opcode::less_equal: return loop<opcode::less_equal>(a, b, c, made, size);
            case opcode::equal: return loop<opcode::equal>(a, b, c, made, size);
            case opcode::choose: return loop<opcode::choose>(a, b, c, made, size);
            default: break;
        }
        if constexpr (std::is_same_v<Number, float>) {
            const kernels::vector_math& math = kernels::vector_math_of_this_processor();
            switch (what) {
                case opcode::exponential: return math.exponential(a, made, size);
                case opcode::sigmoid: return math.sigmoid(a, made, size);
                case opcode::hyperbolic_tangent: return math.hyperbolic_tangent(a, made, size);
                case opcode::error_function: return math.error_function(a, made, size);
                default: break;
            }
        }
        if constexpr (is_real<Number>) {
            switch (what) {
                case opcode::to_half: return loop<opcode::to_half>(a, b, c, made, size);
                case opcode::to_bfloat16: return loop<opcode::to_bfloat16>(a, b, c, made, size);
                case opcode::square_root: return loop<opcode::square_root>(a, b, c, made, size);
                case opcode::exponential: return loop<opcode::exponential>(a, b, c, made, size);
                case opcode::sigmoid: return loop<opcode::sigmoid>(a, b, c, made, size);
                case opcode::hyperbolic_tangent: return loop<opcode::hyperbolic_tangent>(a, b, c, made, size);
                default: break;
            }
        }
        for (std::size_t i = 0; i < size; ++i) made[i] = apply_step<Number>(what, a[i], b[i], c[i]);
    }
};

template <typename Number>
void launch_as(const node_call& in, const expression_program& program, const std::vector<any_tensor>& inputs,
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

// Neighbouring dimensions in which all inputs move alike become one.
void set_strides(const node_call& in, expression_program& program, const lengths& shape,
                 const std::vector<any_tensor>& inputs) {
    std::vector<lengths> strides;
    for (const any_tensor& each : inputs) {
        lengths own = strides_of(each.shape()), made(shape.size(), 0);
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (each.shape()[i] != 1) made[shape.size() - own.size() + i] = own[i];
        }
        strides.push_back(std::move(made));
    }
    lengths merged;
    std::vector<lengths> merged_strides(inputs.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        const bool continues = !merged.empty() && std::ranges::all_of(strides, [&](const lengths& of) {
            const std::size_t k = static_cast<std::size_t>(&of - strides.data());
            return merged_strides[k].back() == of[d] * shape[d];
        });
        if (continues) {
            merged.back() *= shape[d];
            for (std::size_t k = 0; k < strides.size(); ++k) merged_strides[k].back() = strides[k][d];
        } else {
            merged.push_back(shape[d]);
            for (std::size_t k = 0; k < strides.size(); ++k) merged_strides[k].push_back(strides[k][d]);
        }
    }
    if (merged.size() > expression_program::max_rank) in.refuse_unsupported("broadcasts in more than 6 dimensions");
    program.rank = static_cast<std::uint8_t>(merged.size());
    std::ranges::copy(merged, program.lengths);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        std::ranges::copy(merged_strides[k], program.from_strides[k]);
        program.is_dense[k] = inputs[k].elements() == program.count;
    }
}

// Carries out the part; the outputs get these values of it.
void launch_part(const node_call& in, const expression_part& part, const std::vector<any_tensor>& outputs,
                 const std::vector<std::uint8_t>& values) {
    expression_program program;
    program.count = product_of(part.shape);
    program.inputs = static_cast<std::uint16_t>(part.inputs.size());
    program.steps = static_cast<std::uint16_t>(part.steps.size());
    program.outputs = static_cast<std::uint16_t>(outputs.size());
    const auto in_register = [&](std::uint8_t value) {
        return value < expression_part::first_step
                   ? value
                   : static_cast<std::uint8_t>(value - expression_part::first_step + part.inputs.size());
    };
    for (std::size_t k = 0; k < part.steps.size(); ++k) {
        const auto [what, a, b, c] = part.steps[k];
        program.code[k] = what == opcode::constant
                              ? part.steps[k]
                              : expression_program::step{what, in_register(a), in_register(b), in_register(c)};
    }
    std::ranges::copy(part.constants, program.constants);
    set_strides(in, program, part.shape, part.inputs);
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
        if (part.inputs[k].elements() != 0 && in.read<void>(part.inputs[k]) == nullptr)
            throw error(errc::invalid_argument, "an expression reads a value that has no memory", {in.name()});
        program.from[k] = in.read<void>(part.inputs[k]);
        program.from_type[k] = part.inputs[k].type();
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        program.to[k] = in.write<void>(outputs[k]);
        program.to_type[k] = outputs[k].type();
        program.to_register[k] = in_register(values[k]);
    }
    switch (part.kind) {
        case number_kind::f32: return launch_as<float>(in, program, part.inputs, outputs);
        case number_kind::f64: return launch_as<double>(in, program, part.inputs, outputs);
        case number_kind::i64: return launch_as<std::int64_t>(in, program, part.inputs, outputs);
        case number_kind::u64: return launch_as<std::uint64_t>(in, program, part.inputs, outputs);
    }
}

// Whether a number of this kind is the same after it was written to memory of this type and read again, rounded where
// the type needs it (rounding_of). A boolean is made by a comparison: 0 or 1.
bool is_kept_by(io::dtype type, number_kind kind) {
    switch (type) {
        case io::dtype::boolean: return true;
        case io::dtype::f16:
        case io::dtype::bf16:
        case io::dtype::f32: return kind == number_kind::f32;
        case io::dtype::f64: return kind == number_kind::f64;
        case io::dtype::i64: return kind == number_kind::i64;
        case io::dtype::u64: return kind == number_kind::u64;
        default: return false;
    }
}

// What rounds a number as memory of this type does.
std::optional<opcode> rounding_of(io::dtype type) {
    if (type == io::dtype::f16) return opcode::to_half;
    if (type == io::dtype::bf16) return opcode::to_bfloat16;
    return {};
}

// The inputs, constants and steps of parts, one after the other.
class joined_parts {
public:
    explicit joined_parts(expression_part& to) : to_(to) {}

    std::uint8_t add_input(const any_tensor& x) {
        for (std::size_t k = 0; k < to_.inputs.size(); ++k) {
            const any_tensor& known = to_.inputs[k];
            if (x.memory() != nullptr && known.memory() == x.memory() && known.type() == x.type() &&
                known.shape() == x.shape()) {
                return static_cast<std::uint8_t>(k);
            }
        }
        to_.inputs.push_back(x);
        return static_cast<std::uint8_t>(to_.inputs.size() - 1);
    }

    // Steps whose inputs have these values now. `results`, values of theirs, become the values that they have now.
    void add_steps(const std::vector<expression_program::step>& steps, const std::vector<double>& constants,
                   const std::vector<std::uint8_t>& inputs, std::span<std::uint8_t> results) {
        const std::size_t earlier_steps = to_.steps.size(), first_constant = to_.constants.size();
        const auto moved = [&](std::uint8_t value) {
            return value < expression_part::first_step ? inputs[value]
                                                       : static_cast<std::uint8_t>(value + earlier_steps);
        };
        for (const auto& [what, a, b, c] : steps) {
            if (what == opcode::constant) {
                const auto at = static_cast<std::uint8_t>(a + first_constant);
                to_.steps.push_back({what, at, at, at});
            } else {
                to_.steps.push_back({what, moved(a), moved(b), moved(c)});
            }
        }
        to_.constants.insert(to_.constants.end(), constants.begin(), constants.end());
        for (std::uint8_t& each : results) each = moved(each);
    }
    // The value as memory of this type gives it.
    std::uint8_t kept_by(io::dtype type, std::uint8_t value) {
        const auto rounding = rounding_of(type);
        if (!rounding) return value;
        to_.steps.push_back({*rounding, value, value, value});
        return static_cast<std::uint8_t>(expression_part::first_step + to_.steps.size() - 1);
    }

private:
    expression_part& to_;
};

}  // namespace

expression::value expression::input(const any_tensor& from, part_ptr part) {
    if (leaves_.size() == expression_program::max_inputs)
        throw error(errc::invalid_argument, "an expression has at most 8 inputs", {"expression"});
    shape_ = leaves_.empty() ? from.shape() : broadcast(in_, shape_, from.shape());
    leaves_.push_back({from, std::move(part)});
    return static_cast<value>(leaves_.size() - 1);
}

expression::value expression::constant(double number) {
    if (constants_.size() == expression_program::max_constants)
        throw error(errc::invalid_argument, "an expression has too many constants", {"expression"});
    constants_.push_back(number);
    const auto at = static_cast<value>(constants_.size() - 1);
    return apply(opcode::constant, at, at, at);
}

expression::value expression::apply(opcode what, value a, value b, value c) {
    if (steps_.size() == expression_program::max_steps)
        throw error(errc::invalid_argument, "an expression has too many steps", {"expression"});
    steps_.push_back({what, a, b, c});
    return static_cast<value>(expression_part::first_step + steps_.size() - 1);
}

void expression::give(std::size_t output, io::dtype type, value what) {
    is_left_to_next_ = in_.may_leave_to_next() && output == 0 && product_of(shape_) != 0;
    if (is_left_to_next_) {
        in_.set_output(0, any_tensor::of_shape(type, shape_));
        targets_.push_back({any_tensor::of_shape(type, shape_), what});
        return;
    }
    give(in_.make_output(output, type, shape_), what);
}

void expression::give(const any_tensor& to, value what) {
    if (targets_.size() == expression_program::max_outputs)
        throw error(errc::invalid_argument, "an expression has too many outputs", {"expression"});
    targets_.push_back({to, what});
}

number_kind expression::kind() const {
    bool has_real = false, has_double = false, has_whole = false, has_unsigned = false, has_mixed_sign = false;
    const auto note = [&](io::dtype type) {
        has_double |= type == io::dtype::f64;
        has_real |= is_float(type);
        has_unsigned |= type == io::dtype::u64;
        has_whole |= !is_float(type) && type != io::dtype::boolean;
        has_mixed_sign |=
            type == io::dtype::i64 || type == io::dtype::i32 || type == io::dtype::i16 || type == io::dtype::i8;
    };
    for (const leaf& each : leaves_) note(each.x.type());
    for (const target& each : targets_) note(each.to.type());
    if (has_double || (has_real && has_whole)) return number_kind::f64;
    if (has_real) return number_kind::f32;
    return has_unsigned && !has_mixed_sign ? number_kind::u64 : number_kind::i64;
}

// This expression with the parts that were left to it, as far as there is room; and the values of the targets.
expression_part expression::joined(std::vector<value>& given) const {
    expression_part made;
    made.kind = kind();
    made.shape = shape_;
    joined_parts parts(made);
    std::vector<value> values;
    for (std::size_t k = 0; k < leaves_.size(); ++k) {
        const auto& [x, part] = leaves_[k];
        if (part == nullptr) {
            values.push_back(parts.add_input(x));
            continue;
        }
        const bool has_room =
            made.inputs.size() + part->inputs.size() + leaves_.size() - k - 1 <= expression_program::max_inputs &&
            made.steps.size() + part->steps.size() + 1 + steps_.size() <= expression_program::max_steps &&
            made.constants.size() + part->constants.size() + constants_.size() <= expression_program::max_constants;
        if (has_room && part->kind == made.kind && is_kept_by(part->type, made.kind) && part->shape == shape_) {
            std::vector<value> inner;
            for (const any_tensor& each : part->inputs) inner.push_back(parts.add_input(each));
            values.push_back(part->result);
            parts.add_steps(part->steps, part->constants, inner, std::span(values).last(1));
            values.back() = parts.kept_by(part->type, values.back());
        } else {
            const any_tensor written = in_.make(part->type, part->shape);
            launch_part(in_, *part, {written}, {part->result});
            values.push_back(parts.add_input(written));
        }
    }
    given.clear();
    for (const target& each : targets_) given.push_back(each.what);
    parts.add_steps(steps_, constants_, values, given);
    if (!targets_.empty()) {
        made.result = given.front();
        made.type = targets_.front().to.type();
    }
    return made;
}

void expression::run() {
    if (product_of(shape_) == 0 || in_.where() == place::nowhere) return;
    std::vector<value> values;
    expression_part part = joined(values);
    if (is_left_to_next_) return in_.leave_to_next(std::make_shared<const expression_part>(std::move(part)));
    std::vector<any_tensor> outputs;
    for (const target& each : targets_) outputs.push_back(each.to);
    launch_part(in_, part, outputs, values);
}

}  // namespace sluice::nn::operators
