// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "nn/operators/convolutions.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/node_call.hpp"
#include "nn/operators/recurrent_from_zeros.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {
namespace {

constexpr std::size_t no_input = ~std::size_t{0};

tensor<float> as_tensor(const any_tensor& x, const shape& as) {
    return {buffer<float>(x.shared_memory(), x.elements()), as};
}

void run_rounded_layers(node_call& in) {
    const bool takes_matrix = in.environment().layers->takes_matrix;
    const rounded_operator& made = *in.environment().layers->rounded;
    const any_tensor& x = in.input(0);
    const std::size_t features = made.form.features[0], outputs = made.form.features[made.form.layers];
    if (x.type() != io::dtype::f32)
        in.refuse("multiplies and adds tensors of different types: " + to_string(x) + " and weights of f32");
    if (x.shape().empty() || x.shape().back() != features || (takes_matrix && x.shape().size() != 2)) {
        in.refuse_shapes("multiplies " + to_string(x) + " by " + std::to_string(features) + " rows of weights" +
                         (takes_matrix ? "; it has to be a matrix" : ""));
    }
    lengths shape = x.shape();
    shape.back() = outputs;
    const std::size_t rows = product_of(std::span(shape).first(shape.size() - 1));
    const any_tensor& y = in.make_output(0, io::dtype::f32, shape);
    if (rows == 0 || in.where() == place::nowhere) return;
    tensor<float> to = as_tensor(y, {rows, outputs});
    kernels::submit_rounded_layers(in.context().stream(), as_tensor(x, {rows, features}), made.form, **made.image, to);
}

void run_rounded_convolution(node_call& in) {
    const rounded_operator& made = *in.environment().layers->rounded;
    const any_tensor &x = in.input(0), &filter = in.input(1);
    if (x.type() != filter.type()) in.refuse("has the image " + to_string(x) + " and the filter " + to_string(filter));
    const convolution_layout of = convolution_of(in, x, filter);
    const any_tensor& y = in.make_output(0, x.type(), of.output_shape());
    if (y.elements() == 0 || in.where() == place::nowhere) return;
    const kernels::convolution_form form = form_of(of);
    tensor<float> to = as_tensor(y, {form.images, form.filters, form.out_height, form.out_width});
    kernels::submit_rounded_convolution(in.context().stream(),
                                        as_tensor(x, {form.images, form.channels, form.height, form.width}), form,
                                        made.form.type, **made.image, to);
}

// Of numbers that another expression has left to this node: the tensor that they are, if nothing is done with them and
// it has this type.
any_tensor left_as_it_is(const node_call& in, std::size_t input, io::dtype type) {
    const auto part = in.left_to_us(input);
    if (part == nullptr || part->result >= part->inputs.size()) return {};
    const any_tensor& found = part->inputs[part->result];
    return found.type() == type && found.shape() == part->shape ? found : any_tensor();
}

// With what another expression has left to this node.
any_tensor converted(node_call& in, std::size_t input, io::dtype type) {
    const any_tensor& x = in.input(input);
    if (x.type() == type && in.left_to_us(input) == nullptr) return x;
    if (any_tensor found = left_as_it_is(in, input, type)) return found;
    any_tensor made = in.make(type, x.shape());
    if (made.elements() == 0) return made;
    expression e(in);
    e.give(made, e.input(input));
    e.run();
    return made;
}

// The output is f32; the expression that reads it may widen it itself.
void give_widened(node_call& in, const any_tensor& x, std::size_t output = 0) {
    if (output == 0 && in.environment().layers->rounded->stays_narrow) return in.set_output(0, x);
    expression e(in);
    e.give(output, io::dtype::f32, e.input(x));
    e.run();
}

void refuse_others(node_call& in, const any_tensor& each, io::dtype type) {
    if (each.type() != io::dtype::f32 && each.type() != type)
        in.refuse("multiplies tensors of different types: " + to_string(each) + " and weights of f32");
}

// The operator itself, with its inputs in 16 bits but `as_it_is`; what it gives.
std::vector<any_tensor> outputs_of_narrowed(node_call& in, std::size_t outputs_of_it, std::size_t as_it_is,
                                            std::uint32_t shapes_only) {
    const rounded_operator& made = *in.environment().layers->rounded;
    std::vector<any_tensor> inputs, outputs(outputs_of_it);
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        if (!in.has_input(i) || i == as_it_is) {
            inputs.push_back(in.has_input(i) ? in.input(i) : any_tensor());
            continue;
        }
        refuse_others(in, in.input(i), made.type);
        if ((shapes_only & input_bit(i)) != 0)
            inputs.push_back(any_tensor::of_shape(made.type, in.input(i).shape()));
        else
            inputs.push_back(converted(in, i, made.type));
    }
    run_environment here = in.environment();  // without what is left to this node, and by it
    here.command_name = made.whole->name;
    here.left_to_us = {};
    here.leave_to_next = nullptr;
    node_call inside(here, in.what(), made.position, in.opset(), in.where(), inputs, outputs);
    made.whole->run(inside);
    return outputs;
}

void run_narrowed(node_call& in) { give_widened(in, outputs_of_narrowed(in, 1, no_input, none)[0]); }

void run_narrowed_layer_of_steps(node_call& in, std::uint32_t shapes_only) {
    constexpr std::size_t sequence_lengths = 4;
    const std::vector<any_tensor> outputs = outputs_of_narrowed(in, in.output_count(), sequence_lengths, shapes_only);
    const std::uint32_t unread = in.environment().layers->rounded->unread;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i]) continue;
        if ((unread & input_bit(i)) != 0)
            in.set_output(i, outputs[i]);
        else
            give_widened(in, outputs[i], i);
    }
}

void run_narrowed_recurrent(node_call& in) { run_narrowed_layer_of_steps(in, none); }
void run_narrowed_recurrent_from_zeros(node_call& in) { run_narrowed_layer_of_steps(in, recurrent_state_inputs); }

struct layer_sizes {
    std::size_t inputs, outputs;
};

layer_sizes sizes_of(const node_call& in) {
    if (const auto& layers = in.environment().layers->rounded->layers) {
        return std::visit([](const auto& all) { return layer_sizes{all.in_features(), all.out_features()}; }, *layers);
    }
    return {in.input(1).shape()[1], in.input(1).shape()[0]};
}

template <typename T>
void multiply_layers(const node_call& in, const any_tensor& x, const any_tensor& y, std::size_t rows) {
    const rounded_operator& made = *in.environment().layers->rounded;
    const auto [inputs, outputs] = sizes_of(in);
    const auto matrix = [](const any_tensor& of, const shape& as) {
        return tensor<T>(buffer<T>(of.shared_memory(), of.elements()), as);
    };
    if (made.layers) {
        tensor<T> to = matrix(y, {rows, outputs});
        return fused_mlp(in.context().stream(), matrix(x, {rows, inputs}), std::get<packed_mlp<T>>(*made.layers), to);
    }
    const any_tensor& weights = in.input(1);
    std::optional<tensor<T>> bias;
    if (in.has_input(2)) bias.emplace(matrix(in.input(2), {outputs}));
    tensor<T> to = matrix(y, {rows, outputs});
    gemm(in.context().stream(), matrix(x, {rows, inputs}), matrix(weights, {outputs, inputs}), bias ? &*bias : nullptr,
         to, {.transpose_b = true, .after = made.after});
}

void run_narrowed_layer(node_call& in) {
    const bool takes_matrix = in.environment().layers->takes_matrix;
    const rounded_operator& made = *in.environment().layers->rounded;
    const any_tensor& x = in.input(0);
    const auto [features, outputs] = sizes_of(in);
    refuse_others(in, x, made.type);
    if (x.shape().empty() || x.shape().back() != features || (takes_matrix && x.shape().size() != 2)) {
        in.refuse_shapes("multiplies " + to_string(x) + " by " + std::to_string(features) + " rows of weights" +
                         (takes_matrix ? "; it has to be a matrix" : ""));
    }
    lengths shape = x.shape();
    shape.back() = outputs;
    const std::size_t rows = product_of(std::span(shape).first(shape.size() - 1));
    const any_tensor from = converted(in, 0, made.type), y = in.make(made.type, shape);
    if (rows != 0 && in.where() == place::device) {
        if (made.type == io::dtype::bf16)
            multiply_layers<bfloat16>(in, from, y, rows);
        else
            multiply_layers<half>(in, from, y, rows);
    }
    give_widened(in, y);
}

}  // namespace

const definition& rounded_dense_layers() {
    static const definition made = {.name = "Gemm",
                                    .least_inputs = 1,
                                    .most_inputs = 1,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_rounded_layers};
    return made;
}

const definition& rounded_convolution() {
    static const definition made = {.name = "Conv",
                                    .least_inputs = 2,
                                    .most_inputs = 2,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_rounded_convolution,
                                    .shape_inputs = input_bit(1)};
    return made;
}

const definition& narrowed_operator() {
    static const definition made = {.name = "Gemm",
                                    .least_inputs = 2,
                                    .most_inputs = 3,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_narrowed,
                                    .fused_inputs = input_bit(0)};
    return made;
}

const definition& narrowed_recurrent() {
    static const definition made = {.name = "LSTM",
                                    .least_inputs = 3,
                                    .most_inputs = 8,
                                    .most_outputs = 3,
                                    .attributes = {},
                                    .run = &run_narrowed_recurrent,
                                    .fused_inputs = input_bit(0) | recurrent_state_inputs};
    return made;
}

const definition& narrowed_recurrent_from_zeros() {
    static const definition made = [] {
        definition each = narrowed_recurrent();
        each.run = &run_narrowed_recurrent_from_zeros;
        each.shape_inputs = recurrent_state_inputs;
        each.fused_inputs = input_bit(0);
        return each;
    }();
    return made;
}

const definition& narrowed_layer() {
    static const definition made = {.name = "Gemm",
                                    .least_inputs = 1,
                                    .most_inputs = 3,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_narrowed_layer,
                                    .fused_inputs = input_bit(0)};
    return made;
}

}  // namespace sluice::nn::operators
