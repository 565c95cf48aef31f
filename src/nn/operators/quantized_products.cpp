// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string>

#include "nn/operators/convolutions.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/node_call.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {
namespace {

const quantized_operator& quantized_of(const node_call& in) { return *in.environment().layers->quantized; }

void require_quantized(const node_call& in) {
    if (in.input(0).type() != quantized_of(in).numbers.x_type)
        in.refuse("has a zero point of another type than its input, " + to_string(in.input(0)));
}

void submit_product(const node_call& in, const kernels::convolution_form& form, const any_tensor& y) {
    if (y.elements() == 0 || in.where() == place::nowhere) return;
    const quantized_operator& made = quantized_of(in);
    kernels::submit_quantized_product(in.context().stream(), *in.input(0).memory(), form, made.numbers, **made.image,
                                      *y.memory());
}

void run_quantized_layer(node_call& in) {
    const quantized_operator& made = quantized_of(in);
    const any_tensor& x = in.input(0);
    require_quantized(in);
    if (x.shape().empty() || x.shape().back() != made.in_features || (made.takes_matrix && x.shape().size() != 2)) {
        in.refuse_shapes("multiplies " + to_string(x) + " by " + std::to_string(made.in_features) + " rows of weights" +
                         (made.takes_matrix ? "; it has to be a matrix" : ""));
    }
    lengths shape = x.shape();
    shape.back() = made.out_features;
    const std::size_t rows = product_of(std::span(shape).first(shape.size() - 1));
    const any_tensor& y = in.make_output(0, made.numbers.y_type, shape);
    submit_product(in,
                   {.images = rows,
                    .channels = made.in_features,
                    .height = 1,
                    .width = 1,
                    .filters = made.out_features,
                    .filter_height = 1,
                    .filter_width = 1,
                    .out_height = 1,
                    .out_width = 1,
                    .stride = {1, 1},
                    .padding = {0, 0},
                    .dilation = {1, 1},
                    .groups = 1},
                   y);
}

void run_quantized_convolution(node_call& in) {
    require_quantized(in);
    const convolution_layout of = convolution_of(in, in.input(0), in.input(1));
    const any_tensor& y = in.make_output(0, quantized_of(in).numbers.y_type, of.output_shape());
    submit_product(in, form_of(of), y);
}

}  // namespace

kernels::convolution_form form_of(const convolution_layout& of) {
    const window_grid& grid = of.grid;
    return {.images = of.images,
            .channels = of.groups * of.channels,
            .height = grid.input[1],
            .width = grid.input[2],
            .filters = of.groups * of.filters,
            .filter_height = grid.window[1],
            .filter_width = grid.window[2],
            .out_height = grid.output[1],
            .out_width = grid.output[2],
            .stride = {grid.stride[1], grid.stride[2]},
            .padding = {grid.before[1], grid.before[2]},
            .dilation = {grid.dilation[1], grid.dilation[2]},
            .groups = of.groups};
}

const definition& quantized_layer() {
    static const definition made = {.name = "MatMul",
                                    .least_inputs = 1,
                                    .most_inputs = 1,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_quantized_layer};
    return made;
}

const definition& quantized_convolution() {
    static const definition made = {.name = "Conv",
                                    .least_inputs = 2,
                                    .most_inputs = 2,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_quantized_convolution,
                                    .shape_inputs = input_bit(1)};
    return made;
}

}  // namespace sluice::nn::operators
