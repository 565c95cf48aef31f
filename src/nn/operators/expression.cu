// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/expression.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "nn/operators/expression_steps.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/numbers.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

// --- the kernel --------------------------------------------------------------------------------------------------

// On a CPU each index is a block of elements, on a GPU it is one element.
template <typename Number>
struct expression_kernel {
    static constexpr std::size_t numbers_of_part = 32'768 / expression_block;

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
    }
    void on_host(std::size_t first, std::size_t last) const { compute_on_cpu<Number>(all, first, last); }
};

template <typename Number>
void launch_as(const node_call& in, const expression_program& program, const std::vector<any_tensor>& inputs,
               const std::vector<any_tensor>& outputs) {
    const bool is_gpu = in.where() == place::device && in.context().device().kind() == device_kind::cuda;
    const std::size_t indices = is_gpu ? program.count : (program.count + expression_block - 1) / expression_block;
    const auto part = [](const std::vector<any_tensor>& of, std::size_t i) { return &of[i < of.size() ? i : 0]; };
    static const any_tensor nothing;
    const auto read = [&](std::size_t i) { return inputs.empty() ? &nothing : part(inputs, i); };
    each(in, indices, expression_kernel<Number>{program},
         {read(0), read(1), read(2), read(3), read(4), read(5), read(6), read(7)},
         {part(outputs, 0), part(outputs, 1), part(outputs, 2), part(outputs, 3)});
}

// Dimensions, and the strides of each input in them, 0 where it is broadcast. Neighbours in which all inputs move alike
// are one dimension.
struct merged_dimensions {
    lengths length;
    std::vector<lengths> strides;
};

merged_dimensions merge(const lengths& shape, const std::vector<any_tensor>& inputs) {
    std::vector<lengths> strides;
    for (const any_tensor& each : inputs) {
        lengths own = strides_of(each.shape()), made(shape.size(), 0);
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (each.shape()[i] != 1) made[shape.size() - own.size() + i] = own[i];
        }
        strides.push_back(std::move(made));
    }
    merged_dimensions merged{.length = {}, .strides = std::vector<lengths>(inputs.size())};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        const bool continues = !merged.length.empty() && std::ranges::all_of(strides, [&](const lengths& of) {
            const std::size_t k = static_cast<std::size_t>(&of - strides.data());
            return merged.strides[k].back() == of[d] * shape[d];
        });
        if (continues) {
            merged.length.back() *= shape[d];
            for (std::size_t k = 0; k < strides.size(); ++k) merged.strides[k].back() = strides[k][d];
        } else {
            merged.length.push_back(shape[d]);
            for (std::size_t k = 0; k < strides.size(); ++k) merged.strides[k].push_back(strides[k][d]);
        }
    }
    return merged;
}

bool fits(const merged_dimensions& of) { return of.length.size() <= expression_program::max_rank; }

void set_strides(expression_program& program, const merged_dimensions& merged, const std::vector<any_tensor>& inputs) {
    program.rank = static_cast<std::uint8_t>(merged.length.size());
    std::ranges::copy(merged.length, program.lengths);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        std::ranges::copy(merged.strides[k], program.from_strides[k]);
        program.is_dense[k] = inputs[k].elements() == program.count;
    }
}

number_kind kind_of(io::dtype type) {
    if (type == io::dtype::f64) return number_kind::f64;
    if (is_float(type)) return number_kind::f32;
    return type == io::dtype::u64 ? number_kind::u64 : number_kind::i64;
}

void launch_part(const node_call& in, const expression_part& part, const std::vector<any_tensor>& outputs,
                 const std::vector<std::uint8_t>& values);

// A tensor of this shape with x's elements, repeated where x is broadcast. Copies repeat as many of the last dimensions
// as one program can.
any_tensor written_out(const node_call& in, const any_tensor& x, const lengths& shape) {
    lengths now = x.shape();
    now.insert(now.begin(), shape.size() - now.size(), 1);
    any_tensor made = x.with_shape(now);
    while (made.shape() != shape) {
        lengths next = made.shape();
        for (std::size_t d = shape.size(); d-- > 0;) {
            const std::size_t before = std::exchange(next[d], shape[d]);
            if (fits(merge(next, {made}))) continue;
            next[d] = before;
            break;
        }
        expression_part copy;
        copy.inputs = {made};
        copy.kind = kind_of(x.type());
        copy.shape = next;
        any_tensor written = in.make(x.type(), next);
        launch_part(in, copy, {written}, {0});
        made = std::move(written);
    }
    return made;
}

// Carries out the part; the outputs get these values of it.
void launch_part(const node_call& in, const expression_part& part, const std::vector<any_tensor>& outputs,
                 const std::vector<std::uint8_t>& values) {
    const merged_dimensions merged = merge(part.shape, part.inputs);
    if (!fits(merged)) {
        expression_part dense = part;
        for (any_tensor& each : dense.inputs) each = written_out(in, each, part.shape);
        return launch_part(in, dense, outputs, values);
    }
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
    set_strides(program, merged, part.inputs);
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
// the type needs it (rounding_of). A boolean is made by a comparison: 0 or 1. A small integer is made in f32 only where
// an element is quantized: then it is whole, and in the type's range.
bool is_kept_by(io::dtype type, number_kind kind) {
    switch (type) {
        case io::dtype::boolean: return true;
        case io::dtype::i8:
        case io::dtype::u8:
        case io::dtype::i16:
        case io::dtype::u16:
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
    if (chosen_) return *chosen_;
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
