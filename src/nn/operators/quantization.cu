// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "kernels/reduction/row_math.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/table.hpp"
#include "nn/operators/typed_elements.hpp"

namespace sluice::nn::operators {
namespace {

// --- which scale an element has ----------------------------------------------------------------------------------

// The tensor is [outer, length, inner]. Blocks of `block` along the length have one scale, for each inner element where
// the scales are as long there, else for all.
struct scale_grid {
    std::size_t length = 1, inner = 1, block = 1, blocks = 1;
    in_word<bool> is_one = true, is_blocked = false;

    SLUICE_KERNEL std::size_t operator()(std::size_t i) const {
        if (is_one) return 0;
        const std::size_t along = i / inner % length;
        return is_blocked ? (i / inner / length * blocks + along / block) * inner + i % inner : along;
    }
};

scale_grid scale_grid_of(const node_call& in, const any_tensor& x, const any_tensor& scale) {
    scale_grid made;
    const auto refuse = [&] {
        in.refuse_shapes("has the scale " + to_string(scale) + ", which does not fit " + to_string(x));
    };
    const std::int64_t block = in.integer("block_size", 0);
    if (block < 0) in.refuse("has a block of " + std::to_string(block));
    if (block == 0 && scale.elements() == 1 && scale.shape().size() <= 1) return made;
    made.is_one = false;
    const std::size_t axis = in.axis(in.integer("axis", 1), x.shape().size());
    made.length = x.shape()[axis];
    made.inner = product_of(std::span(x.shape()).subspan(axis + 1));
    if (block == 0) {
        if (scale.shape() != lengths{made.length}) refuse();
        return made;
    }
    made.is_blocked = true;
    made.block = static_cast<std::size_t>(block);
    made.blocks = made.length / made.block + (made.length % made.block != 0 ? 1 : 0);
    lengths expected = x.shape();
    expected[axis] = made.blocks;
    if (scale.shape() != expected) refuse();
    return made;
}

// A type of ONNX that an attribute names; 0 or left out: none.
std::optional<io::dtype> type_named(const node_call& in, std::string_view attribute) {
    switch (in.integer(attribute, 0)) {
        case 0: return std::nullopt;
        case 1: return io::dtype::f32;
        case 2: return io::dtype::u8;
        case 3: return io::dtype::i8;
        case 4: return io::dtype::u16;
        case 5: return io::dtype::i16;
        case 6: return io::dtype::i32;
        case 10: return io::dtype::f16;
        case 11: return io::dtype::f64;
        case 16: return io::dtype::bf16;
        default:
            in.refuse_unsupported("has the " + std::string(attribute) + " " + std::to_string(in.integer(attribute, 0)) +
                                  ", a type that Sluice does not have");
    }
}

bool is_quantized(io::dtype type) {
    using enum io::dtype;
    return type == i8 || type == u8 || type == i16 || type == u16;
}
// In which numbers come, and scales.
bool is_quantizable(io::dtype type) {
    using enum io::dtype;
    return type == f32 || type == f16 || type == bf16 || type == i32;
}

// --- kernels -----------------------------------------------------------------------------------------------------

// y = x / scale + zero, or (x - zero) * scale
struct quantized_element {
    const void* x;
    void* y;
    in_word<io::dtype> x_type, y_type, precision;
    scale_grid grid;
    number_list scale, zero;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t at = grid(i);
        const double number = rounded_to(precision, number_at(x, x_type, i)),
                     divisor = rounded_to(precision, scale[at]);
        write_saturated(y, y_type, i, std::rint(rounded_to(precision, number / divisor)) + zero[at]);
    }
};

struct dequantized_element {
    const void* x;
    void* y;
    io::dtype x_type, y_type;
    scale_grid grid;
    number_list scale, zero;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t at = grid(i);
        write_saturated(y, y_type, i, (number_at(x, x_type, i) - zero[at]) * scale[at]);
    }
};

// The smallest and the largest number of a part, with 0.
struct range_of_part {
    const float* x;
    float* y;  // [parts, 2]
    std::size_t count, part;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t end = (i + 1) * part < count ? (i + 1) * part : count;
        float low = 0, high = 0;
        for (std::size_t k = i * part; k < end; ++k) {
            low = x[k] < low ? x[k] : low;
            high = x[k] > high ? x[k] : high;
        }
        y[2 * i] = low;
        y[2 * i + 1] = high;
    }

    static constexpr std::size_t numbers_of_part = 256;
    void on_host(std::size_t first, std::size_t last) const {
        const kernels::row_math& math = kernels::row_math_of_this_processor();
        for (std::size_t i = first; i < last; ++i) {
            float low = 0, high = 0;
            math.range(x + i * part, std::min((i + 1) * part, count) - i * part, &low, &high);
            y[2 * i] = low;
            y[2 * i + 1] = high;
        }
    }
};

struct scale_of_range {
    const float* parts;
    std::size_t count;
    float* scale;
    std::uint8_t* zero;

    SLUICE_KERNEL void operator()(std::size_t) const {
        float low = 0, high = 0;
        for (std::size_t k = 0; k < count; ++k) {
            low = parts[2 * k] < low ? parts[2 * k] : low;
            high = parts[2 * k + 1] > high ? parts[2 * k + 1] : high;
        }
        // All zeros: any scale is right, as long as it is not 0.
        const float step = (low == high ? 1.0f : high - low) / 255.0f;
        *scale = step;
        write_saturated(zero, io::dtype::u8, 0, std::rint(static_cast<double>(-low / step)));
    }
};

// --- operators ---------------------------------------------------------------------------------------------------

void require_zero_like(const node_call& in, const any_tensor& scale) {
    if (in.has_input(2) && in.input(2).shape() != scale.shape() &&
        (in.input(2).elements() != 1 || scale.elements() != 1)) {
        in.refuse_shapes("has the scale " + to_string(scale) + " and the zero point " + to_string(in.input(2)));
    }
}

// A scale or zero point for all elements of the input, or one for each index of an axis, as it is broadcast.
any_tensor along_axis(const node_call& in, const any_tensor& quantity, const scale_grid& grid) {
    if (grid.is_one) return quantity.with_shape({});
    const std::size_t rank = in.input(0).shape().size();
    lengths shape(rank - in.axis(in.integer("axis", 1), rank), 1);
    shape[0] = grid.length;
    return quantity.with_shape(std::move(shape));
}

// The node's input 0 in memory.
any_tensor written_input(node_call& in) {
    if (in.left_to_us(0) == nullptr) return in.input(0);
    const any_tensor made = in.make(in.input(0).type(), in.input(0).shape());
    expression e(in);
    e.give(made, e.input(0));
    e.run();
    return made;
}

// limit(round(x / scale) + zero), each number and the quotient rounded to the precision.
expression::value quantized(expression& e, expression::value x, expression::value scale,
                            std::optional<expression::value> zero, io::dtype type, io::dtype precision) {
    const auto rounded = [&](expression::value each) {
        if (precision == io::dtype::f16) return e.apply(opcode::to_half, each);
        return precision == io::dtype::bf16 ? e.apply(opcode::to_bfloat16, each) : each;
    };
    expression::value made = rounded(e.apply(opcode::divide, rounded(x), rounded(scale)));
    made = e.apply(opcode::round, made);
    if (zero) made = e.apply(opcode::add, made, *zero);
    double low = 0, high = 65535;
    if (type == io::dtype::u8) high = 255;
    if (type == io::dtype::i8) low = -128, high = 127;
    if (type == io::dtype::i16) low = -32768, high = 32767;
    return e.apply(opcode::limit, made, e.constant(low), e.constant(high));
}

void quantize(node_call& in) {
    const any_tensor &x = in.input(0), &scale = in.input(1);
    if (!is_quantizable(x.type())) in.refuse_type(x);
    if (!is_quantizable(scale.type())) in.refuse_type(scale);
    require_zero_like(in, scale);
    const auto named = type_named(in, "output_dtype");
    io::dtype type = named.value_or(io::dtype::u8);
    if (in.has_input(2)) {
        type = in.input(2).type();
        if (named && *named != type) in.refuse("has an output_dtype that is not the type of its zero point");
    }
    if (!is_quantized(type)) in.refuse_unsupported("does not quantize to " + std::string(io::to_string(type)));
    const io::dtype precision = type_named(in, "precision").value_or(scale.type());
    const scale_grid grid = scale_grid_of(in, x, scale);
    if (!grid.is_blocked && is_float(precision) && precision != io::dtype::f64) {
        expression e(in);
        e.compute_in(number_kind::f32);
        const auto read = e.input(0), divisor = e.input(along_axis(in, scale, grid));
        std::optional<expression::value> zero;
        if (in.has_input(2)) zero = e.input(along_axis(in, in.input(2), grid));
        e.give(0, type, quantized(e, read, divisor, zero, type, precision));
        return e.run();
    }
    const any_tensor from = written_input(in);
    const any_tensor& y = in.make_output(0, type, x.shape());
    each(in, y.elements(),
         quantized_element{in.read<void>(from), in.write<void>(y), x.type(), type, precision, grid,
                           numbers_from(in, 1, 1), numbers_from(in, 2, 0)},
         {&from, &scale, in.has_input(2) ? &in.input(2) : &from}, {&y});
}

void dequantize(node_call& in) {
    const any_tensor &x = in.input(0), &scale = in.input(1);
    if (!is_quantized(x.type()) && x.type() != io::dtype::i32) in.refuse_type(x);
    if (!is_float(scale.type()) || scale.type() == io::dtype::f64) in.refuse_type(scale);
    require_zero_like(in, scale);
    if (in.has_input(2) && in.input(2).type() != x.type()) in.refuse("has a zero point of another type than its input");
    const io::dtype type = type_named(in, "output_dtype").value_or(scale.type());
    if (!is_float(type) || type == io::dtype::f64)
        in.refuse_unsupported("does not dequantize to " + std::string(io::to_string(type)));
    const scale_grid grid = scale_grid_of(in, x, scale);
    // (f32 holds all integers of 16 bits, and their differences.)
    if (!grid.is_blocked && is_quantized(x.type())) {
        expression e(in);
        e.compute_in(number_kind::f32);
        expression::value made = e.input(0);
        const auto factor = e.input(along_axis(in, scale, grid));
        if (in.has_input(2)) made = e.apply(opcode::subtract, made, e.input(along_axis(in, in.input(2), grid)));
        e.give(0, type, e.apply(opcode::multiply, made, factor));
        return e.run();
    }
    const any_tensor from = written_input(in);
    const any_tensor& y = in.make_output(0, type, x.shape());
    each(in, y.elements(),
         dequantized_element{in.read<void>(from), in.write<void>(y), x.type(), type, grid, numbers_from(in, 1, 1),
                             numbers_from(in, 2, 0)},
         {&from, &scale, in.has_input(2) ? &in.input(2) : &from}, {&y});
}

void dynamic_quantize(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() != io::dtype::f32) in.refuse_type(x);
    const any_tensor& y = in.make_output(0, io::dtype::u8, x.shape());
    const any_tensor& scale = in.make_output(1, io::dtype::f32, {});
    const any_tensor& zero = in.make_output(2, io::dtype::u8, {});
    // About as many parts as each has numbers.
    const std::size_t count = x.elements();
    const std::size_t part =
        std::max<std::size_t>(static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(count)))), 1);
    const std::size_t parts = (count + part - 1) / part;
    const any_tensor range = in.make(io::dtype::f32, {parts, 2});
    each(in, parts, range_of_part{in.read<float>(x), in.write<float>(range), count, part}, {&x}, {&range});
    each(in, 1, scale_of_range{in.read<float>(range), parts, in.write<float>(scale), in.write<std::uint8_t>(zero)},
         {&range}, {&scale, &zero});
    if (count == 0) return;
    expression e(in);
    e.compute_in(number_kind::f32);
    const auto read = e.input(x), divisor = e.input(scale), moved = e.input(zero);
    e.give(y, quantized(e, read, divisor, moved, y.type(), io::dtype::f32));
    e.run();
}

}  // namespace

std::span<const definition> quantization() {
    static const std::vector<definition> known = {
        {.name = "QuantizeLinear",
         .least_inputs = 2,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"axis", "block_size", "output_dtype", "precision", "saturate"},
         .run = &quantize,
         .since = 10,
         .fused_inputs = input_bit(0)},
        {.name = "DequantizeLinear",
         .least_inputs = 2,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"axis", "block_size", "output_dtype"},
         .run = &dequantize,
         .since = 10,
         .fused_inputs = input_bit(0)},
        {.name = "DynamicQuantizeLinear",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 3,
         .attributes = {},
         .run = &dynamic_quantize,
         .since = 11},
    };
    return known;
}

}  // namespace sluice::nn::operators
