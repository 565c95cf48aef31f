// SPDX-License-Identifier: Apache-2.0
// dense_layers: what passes make of a stretch of dense layers, or of one product or convolution whose factors are
// rounded or quantized.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "kernels/rounded_layers/quantized_product.hpp"
#include "nn/operators/convolutions.hpp"
#include "nn/operators/table.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::nn::operators {

// Of passes/rounding.cpp.
struct rounded_operator {
    // On a CPU: dense layers, or the filters of a convolution, whose groups are layers.
    kernels::rounded_form form = {};
    std::optional<shared_tensor<std::byte>> image = {};
    // Elsewhere: the operator itself, on numbers of this type.
    const definition* whole = nullptr;
    io::dtype type = io::dtype::f32;
    std::size_t position = 0;  // of its node
    // Or a dense layer: what comes after the sums.
    activation after = activation::none;
    // Or several dense layers, which one kernel computes.
    std::optional<std::variant<packed_mlp<half>, packed_mlp<bfloat16>>> layers = {};
    // All that read the output round it to the type: it is not widened to f32.
    bool stays_narrow = false;
    // Outputs of a recurrent layer that nothing reads (input_bit): they are not widened.
    std::uint32_t unread = 0;
};

// Of passes/quantized_products.cpp, on a CPU.
struct quantized_operator {
    bool is_convolution = false;
    bool takes_matrix = false;
    std::size_t in_features = 0, out_features = 0;  // of a product
    kernels::quantized_form numbers = {};
    std::optional<shared_tensor<std::byte>> image = {};
};

// Of passes/recurrent_layouts.cpp: an RNN, GRU or LSTM of `layout` 0 on a GPU without the nodes around it that only
// move elements.
struct recurrent_views {
    enum class form : unsigned char {
        as_the_node,
        steps_rows,  // [steps, rows, directions * hidden]
        rows_steps,  // [rows, steps, directions * hidden]
    };
    bool x_has_rows_first = false;  // it is [rows, steps, inputs]
    form y = form::as_the_node;
};

struct dense_layers {
    bool takes_matrix = false;  // one of its nodes does; else rows may have any number of dimensions
    // One of them.
    std::optional<packed_mlp<float>> network = {};
    std::optional<rounded_operator> rounded = {};
    std::optional<quantized_operator> quantized = {};
    recurrent_views recurrent = {};
};

// Dense layers: the input is their rows. A convolution: the inputs are those of Conv, but only the shape of the filters
// matters. Any operator: the inputs are its own, the constant ones rounded and the others f32; the output is f32.
const definition& rounded_dense_layers();
const definition& rounded_convolution();
const definition& narrowed_operator();
// RNN, GRU or LSTM likewise; lengths of sequences are as they were.
const definition& narrowed_recurrent();
// A dense layer on a GPU: rows of any number of dimensions, or a matrix; the weights [outputs, inputs] and perhaps the
// bias, of the type. Or several: only the rows. The output is f32.
const definition& narrowed_layer();
// The input is quantized rows, or the inputs are those of Conv, the images quantized and of the filters only the shape.
const definition& quantized_layer();
const definition& quantized_convolution();

// Of images of one or two dimensions.
kernels::convolution_form form_of(const convolution_layout& of);

}  // namespace sluice::nn::operators
