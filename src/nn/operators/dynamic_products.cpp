// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/dynamic_products.hpp"

#include <span>
#include <string>

#include "kernels/rounded_layers/dynamic_product.hpp"
#include "kernels/rounded_layers/quantized_product.hpp"
#include "nn/operators/convolutions.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/operators/node_call.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::operators {
namespace {

void run_dynamic_product(node_call& in) {
    const any_tensor& x = in.input(0);
    const integers form = in.host_integers(dynamic_product_form_input);
    const auto features = static_cast<std::size_t>(form[0]), outputs = static_cast<std::size_t>(form[1]);
    if (x.shape().empty() || x.shape().back() != features) {
        in.refuse_shapes("multiplies " + to_string(x) + " by " + std::to_string(features) + " rows of weights");
    }
    lengths shape = x.shape();
    shape.back() = outputs;
    const std::size_t rows = product_of(std::span(shape).first(shape.size() - 1));
    const any_tensor& y = in.make_output(0, io::dtype::f32, shape);
    if (rows == 0 || in.where() == place::nowhere) return;
    kernels::dynamic_product of{};
    of.rows = rows;
    of.in_features = features;
    of.out_features = outputs;
    of.after = form[2] != 0 ? activation::relu : activation::none;
    kernels::submit_dynamic_product(in.context().stream(), *x.memory(), *in.input(1).memory(), *in.input(2).memory(),
                                    *in.input(3).memory(), *y.memory(), of);
}

void run_dynamic_convolution(node_call& in) {
    const convolution_layout of = convolution_of(in, in.input(0), in.input(5));
    const any_tensor& y = in.make_output(0, io::dtype::f32, of.output_shape());
    const bool has_relu = in.host_integers(dynamic_convolution_form_input)[0] != 0;
    if (y.elements() == 0 || in.where() == place::nowhere) return;
    kernels::submit_dynamic_convolution(
        in.context().stream(), *in.input(0).memory(), *in.input(1).memory(), *in.input(2).memory(), form_of(of),
        has_relu ? activation::relu : activation::none, *in.input(3).memory(), *y.memory());
}

}  // namespace

const definition& dynamic_product() {
    static const definition made = {.name = "MatMulInteger",
                                    .least_inputs = dynamic_product_inputs,
                                    .most_inputs = dynamic_product_inputs,
                                    .most_outputs = 1,
                                    .attributes = {},
                                    .run = &run_dynamic_product,
                                    .host_inputs = input_bit(dynamic_product_form_input)};
    return made;
}

const definition& dynamic_convolution() {
    static const definition made = {.name = "ConvInteger",
                                    .least_inputs = dynamic_convolution_inputs,
                                    .most_inputs = dynamic_convolution_inputs,
                                    .most_outputs = 1,
                                    .attributes = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
                                    .run = &run_dynamic_convolution,
                                    .host_inputs = input_bit(dynamic_convolution_form_input),
                                    .shape_inputs = input_bit(5)};
    return made;
}

}  // namespace sluice::nn::operators
