// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "nn/operators/convolutions.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/expression.hpp"
#include "nn/operators/node_call.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {
namespace {

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
void give_widened(node_call& in, const any_tensor& x) {
    if (in.environment().layers->rounded->stays_narrow) return in.set_output(0, x);
    expression e(in);
    e.give(0, io::dtype::f32, e.input(x));
    e.run();
}

void refuse_others(node_call& in, const any_tensor& each, io::dtype type) {
    if (each.type() != io::dtype::f32 && each.type() != type)
        in.refuse("multiplies tensors of different types: " + to_string(each) + " and weights of f32");
}

void run_narrowed(node_call& in) {
    const rounded_operator& made = *in.environment().layers->rounded;
    std::vector<any_tensor> inputs, outputs(1);
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        if (!in.has_input(i)) {
            inputs.emplace_back();
            continue;
        }
        refuse_others(in, in.input(i), made.type);
        inputs.push_back(converted(in, i, made.type));
    }
    run_environment here = in.environment();  // without what is left to this node, and by it
    here.left_to_us = {};
    here.leave_to_next = nullptr;
    node_call inside(here, in.what(), made.position, in.opset(), in.where(), inputs, outputs);
    made.whole->run(inside);
    give_widened(in, outputs[0]);
}

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
