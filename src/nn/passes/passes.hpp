// SPDX-License-Identifier: Apache-2.0
// passes: change the steps of a prepared graph so that fewer commands compute the same. They run after constants are
// folded, and before constants are on the device. A network may then differ from its model in the last bits of a
// number, as it does between devices.
#pragma once

#include <filesystem>

#include "nn/prepared_network.hpp"
#include "sluice/nn/precision.hpp"

namespace sluice::nn::detail {

// A batch normalization of constant numbers is a factor and an addend for each channel. They become part of the
// constant weights and the bias of the convolution or matrix product before it, if only the normalization reads that
// one; else the normalization becomes an expression that uses them. For numbers of f32. Also in the graphs of steps.
void fold_batch_normalizations(prepared_graph& in);

// Stretches of dense layers (Gemm, or MatMul and Add, with constant f32 weights; and their activations) become one
// command each (kernels/fused_mlp.hpp): on a CPU, where a stretch has so few weights that this is faster for any number
// of rows.
void fuse_dense_layers(prepared_graph& in, execution_context& context);

// On a CPU: products and convolutions whose factors come from DequantizeLinear (the weights constant), with a ReLU and
// a QuantizeLinear after them, are computed with integers. Before constants are dequantized. Says how many.
std::size_t fuse_quantized_products(prepared_graph& in, execution_context& context);

// On a CPU: products of DynamicQuantizeLinear's rows by constant weights, with the scales, a bias and a ReLU after
// them, become one command each, whose weights are packed. Says how many. Also in the graphs of steps.
std::size_t fuse_dynamic_products(prepared_graph& in, execution_context& context);

// Products and convolutions with constant weights are computed with fewer bits, as precision.hpp says. Notes in
// `report` which are. Also in the graphs of steps.
void round_products(prepared_graph& in, precision what, execution_context& context, rounding_report& report);

// Softmax of products, and products with it, as exporters write attention, with the nodes that divide into heads and
// join them, become one command (attention/attention_step.hpp): in f32 on a CPU and on a GPU, and on a GPU also in f16
// and bf16. Before round_products. Notes in `report` what is rounded. Also in the graphs of steps.
void fuse_attention(prepared_graph& in, precision what, execution_context& context, rounding_report& report);

// On a GPU: an Add and the LayerNormalization of its sum become one kernel (residual/residual_norm_step.hpp), which
// also gives what products round. After round_products. Also in the graphs of steps.
void fuse_residual_norms(prepared_graph& in, precision what, execution_context& context);

// After that: what rounded products and attention give stays in 16 bits where all that read it take it so. Also in the
// graphs of steps.
void keep_values_narrow(prepared_graph& in);

// On a CPU: convolutions, and the poolings, additions, concatenations and elementwise operators around them, become one
// command each, in which images are kept channels last (images/stretch.hpp). For numbers of f32.
void fuse_image_stretches(prepared_graph& in, execution_context& context);

// The same on a GPU that has kernels for it, in f16 or bf16. Before round_products, which rounds what is left. Notes in
// `report` how many convolutions there are.
void fuse_short_image_stretches(prepared_graph& in, precision what, execution_context& context,
                                rounding_report& report);

// On a CPU: the constant weights of RNN, GRU and LSTM in f32, and of DynamicQuantizeLSTM, are packed once. Also in the
// graphs of steps.
void pack_recurrent_layers(prepared_graph& in, execution_context& context);

// On a CPU: the attributes of trees become one constant, in the form in which they are computed with. Also in the
// graphs of steps.
void pack_trees(prepared_graph& in, const std::filesystem::path& path, execution_context& context);

// Sets, for each step, the values that nothing after it uses. Also in the graphs of steps.
void find_last_uses(prepared_graph& in);

}  // namespace sluice::nn::detail
