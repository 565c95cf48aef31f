// SPDX-License-Identifier: Apache-2.0
// Operators that change shapes only, and those whose numbers are known when shapes are: they give tensors on the host.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

// --- constants ---------------------------------------------------------------------------------------------------

void constant_node(node_call& in) {
    if (in.what().attributes.size() != 1) in.refuse("has to have one attribute, its value");
    for (const std::string_view name : {"value", "sparse_value"}) {
        if (const nn::constant* const given = in.tensor_attribute(name)) return in.set_output(0, any_tensor(*given));
    }
    if (in.has("value_float")) return in.set_output(0, any_tensor(std::vector{in.real("value_float", 0)}, {}));
    if (in.has("value_int")) return in.set_output(0, any_tensor(std::vector{in.integer("value_int", 0)}, {}));
    if (in.has("value_floats")) {
        const std::vector<float> values = in.real_list("value_floats");
        return in.set_output(0, any_tensor(values, {values.size()}));
    }
    if (in.has("value_ints")) {
        const integers values = in.integer_list("value_ints");
        return in.set_output(0, any_tensor(values, {values.size()}));
    }
    in.refuse_unsupported("is text, which the reader of ONNX files replaces by numbers");
}

// --- from shapes to numbers --------------------------------------------------------------------------------------

void shape_numbers(node_call& in) {
    const lengths& shape = in.input(0).shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto bound = [&](std::string_view name, std::int64_t otherwise) {
        const std::int64_t given = in.integer(name, otherwise);
        return std::clamp<std::int64_t>(given < 0 ? given + rank : given, 0, rank);
    };
    const std::int64_t begin = bound("start", 0), end = bound("end", rank);
    integers numbers;
    for (std::int64_t i = begin; i < end; ++i)
        numbers.push_back(static_cast<std::int64_t>(shape[static_cast<std::size_t>(i)]));
    in.set_output(0, any_tensor(numbers, {numbers.size()}));
}

void number_of_elements(node_call& in) {
    in.set_output(0, any_tensor(std::vector{static_cast<std::int64_t>(in.input(0).elements())}, {}));
}

// --- other shapes for the same elements --------------------------------------------------------------------------

void give_in_shape(node_call& in, const lengths& shape) {
    const any_tensor& x = in.input(0);
    if (io::element_count(shape) != x.elements())
        in.refuse_shapes("gives " + to_string(x) + " the shape " + to_string(std::span(shape)) +
                         ", which does not fit");
    in.set_output(0, x.with_shape(shape));
}

void reshape(node_call& in) {
    const any_tensor& x = in.input(0);
    if (in.input(1).shape().size() > 1) in.refuse("has a shape that is " + to_string(in.input(1)));
    const integers wanted = in.host_integers(1);
    const bool zero_is_a_length = in.integer("allowzero", 0) != 0;
    lengths shape(wanted.size());
    std::optional<std::size_t> left_open;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == -1) {
            if (left_open) in.refuse_value(1, "leaves two lengths open");
            left_open = i;
            shape[i] = 1;
        } else if (wanted[i] < 0) {
            in.refuse_value(1, "has the length " + std::to_string(wanted[i]));
        } else if (wanted[i] == 0 && !zero_is_a_length) {
            if (i >= x.shape().size()) in.refuse_shapes("copies a length that " + to_string(x) + " does not have");
            shape[i] = x.shape()[i];
        } else {
            shape[i] = static_cast<std::size_t>(wanted[i]);
        }
    }
    if (left_open) {
        const auto others = io::element_count(shape);
        if (!others || *others == 0 || x.elements() % *others != 0)
            in.refuse_shapes("cannot find the open length of its shape for " + to_string(x));
        shape[*left_open] = x.elements() / *others;
    }
    give_in_shape(in, shape);
}

void flatten(node_call& in) {
    const lengths& shape = in.input(0).shape();
    const auto axis = static_cast<std::ptrdiff_t>(in.axis(in.integer("axis", 1), shape.size(), true));
    const std::span all_lengths(shape);
    give_in_shape(in, {product_of(all_lengths.first(static_cast<std::size_t>(axis))),
                       product_of(all_lengths.subspan(static_cast<std::size_t>(axis)))});
}

// The axes are an attribute until version 13, then an input. None where they are left out.
std::optional<integers> axes_of_squeeze(const node_call& in) {
    if (in.has_input(1)) {
        if (in.input(1).shape().size() > 1) in.refuse("has axes that are " + to_string(in.input(1)));
        return in.host_integers(1);
    }
    if (in.has("axes")) return in.integer_list("axes");
    return {};
}

void squeeze(node_call& in) {
    const lengths& shape = in.input(0).shape();
    const auto given = axes_of_squeeze(in);
    std::vector<bool> is_dropped(shape.size(), false);
    if (given) {
        for (const std::size_t each : in.axes(*given, shape.size(), in.from_input(1))) {
            if (shape[each] != 1)
                in.refuse_shapes("drops the dimension " + std::to_string(each) + " of " + to_string(in.input(0)));
            is_dropped[each] = true;
        }
    } else {
        for (std::size_t i = 0; i < shape.size(); ++i) is_dropped[i] = shape[i] == 1;
    }
    lengths made;
    for (std::size_t i = 0; i < shape.size(); ++i)
        if (!is_dropped[i]) made.push_back(shape[i]);
    give_in_shape(in, made);
}

void unsqueeze(node_call& in) {
    lengths shape = in.input(0).shape();
    const auto given = axes_of_squeeze(in);
    if (!given) in.refuse("has no axes");
    // In order, so each is inserted at its place in the result.
    for (const std::size_t each : in.axes(*given, shape.size() + given->size(), in.from_input(1)))
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(each), 1);
    give_in_shape(in, shape);
}

// --- Range -------------------------------------------------------------------------------------------------------

// Where only the shape is wanted; a length that is too large is refused without memory for the numbers.
bool give_range_shape(node_call& in, std::size_t count) {
    if (!io::byte_count(lengths{count}, in.input(0).type())) in.refuse_value(1, "gives too many numbers");
    if (in.where() != place::nowhere) return false;
    in.make_output(0, in.input(0).type(), {count});
    return true;
}

template <typename T>
void range_of_integers(node_call& in) {
    const std::int64_t start = in.host_integers(0).at(0), limit = in.host_integers(1).at(0),
                       delta = in.host_integers(2).at(0);
    if (delta == 0) in.refuse_value(2, "has steps of 0");
    // In unsigned numbers, where differences do not overflow.
    const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(limit),
               step = static_cast<std::uint64_t>(delta);
    std::uint64_t count = 0;
    if (delta > 0 && limit > start) count = (to - from - 1) / step + 1;
    if (delta < 0 && limit < start) count = (from - to - 1) / (0 - step) + 1;
    if (give_range_shape(in, count)) return;
    std::vector<T> numbers(count);
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = static_cast<T>(from + i * step);
    in.set_output(0, any_tensor(numbers, {numbers.size()}));
}

template <typename T>
void range_of_reals(node_call& in) {
    const double start = in.host_number(0), limit = in.host_number(1), delta = in.host_number(2);
    if (delta == 0) in.refuse_value(2, "has steps of 0");
    const double count = std::max(0.0, std::ceil((limit - start) / delta));
    if (!(count < 0x1p53)) {
        in.refuse_value(1, "gives too many numbers, from " + std::to_string(start) + " to " + std::to_string(limit) +
                               " by " + std::to_string(delta));
    }
    if (give_range_shape(in, static_cast<std::size_t>(count))) return;
    std::vector<T> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<T>(static_cast<computed<T>>(start + static_cast<double>(i) * delta));
    in.set_output(0, any_tensor(numbers, {numbers.size()}));
}

void range(node_call& in) {
    for (std::size_t i = 0; i < 3; ++i) {
        if (in.input(i).elements() != 1) in.refuse("has to have one number as input, not " + to_string(in.input(i)));
        if (in.input(i).type() != in.input(0).type()) in.refuse("has inputs of different types");
    }
    const std::int64_t stash_type = in.integer("stash_type", 1);
    if (stash_type != 1 && stash_type != 11)
        in.refuse_unsupported("computes in the type " + std::to_string(stash_type) + ", which is not supported");
    using enum io::dtype;
    switch (in.input(0).type()) {
        case f16: return range_of_reals<half>(in);
        case bf16: return range_of_reals<bfloat16>(in);
        case f32: return range_of_reals<float>(in);
        case f64: return range_of_reals<double>(in);
        case i16: return range_of_integers<std::int16_t>(in);
        case i32: return range_of_integers<std::int32_t>(in);
        case i64: return range_of_integers<std::int64_t>(in);
        default: in.refuse_type(in.input(0));
    }
}

}  // namespace

std::span<const definition> shapes() {
    static const std::vector<definition> list = {
        {"Constant",
         0,
         0,
         1,
         {"value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings",
          "sparse_value"},
         &constant_node},
        {.name = "Shape",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"start", "end"},
         .run = &shape_numbers,
         .shape_inputs = input_bit(0)},
        {.name = "Size",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {},
         .run = &number_of_elements,
         .shape_inputs = input_bit(0)},
        {.name = "Reshape",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"allowzero"},
         .run = &reshape,
         .host_inputs = input_bit(1),
         .since = 5},
        {"Flatten", 1, 1, 1, {"axis"}, &flatten},
        {.name = "Squeeze",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"axes"},
         .run = &squeeze,
         .until = 12},
        {.name = "Squeeze",
         .least_inputs = 1,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {},
         .run = &squeeze,
         .host_inputs = input_bit(1),
         .since = 13},
        {.name = "Unsqueeze",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"axes"},
         .run = &unsqueeze,
         .until = 12},
        {.name = "Unsqueeze",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {},
         .run = &unsqueeze,
         .host_inputs = input_bit(1),
         .since = 13},
        {.name = "Range",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"stash_type"},
         .run = &range,
         .host_inputs = all,
         .since = 11},
    };
    return list;
}

}  // namespace sluice::nn::operators
