// SPDX-License-Identifier: Apache-2.0
// passes: change the steps of a prepared graph so that fewer commands compute the same. A network may then differ from
// its model in the last bits of a number, as it does between devices. order.hpp says what each does, where and when;
// here is what a caller must know besides. Those that say so also change the graphs of steps.
#pragma once

#include <filesystem>

#include "nn/prepared_graph.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn::detail {

// What the host needs, and which steps are computed there. Before all passes. Also in the graphs of steps.
void find_host_values(prepared_graph& in);

// A batch normalization of constant numbers is a factor and an addend for each channel. They become part of the
// constant weights and the bias of the convolution or matrix product before it, if only the normalization reads that
// one; else the normalization becomes an expression that uses them. For numbers of f32. Also in the graphs of steps.
void fold_batch_normalizations(prepared_graph& in);

// Nodes that compute HardSigmoid, HardSwish or the exact GELU, with constants of f32. The operators have no overflow
// and no rounding error in between that the nodes have. Also in the graphs of steps.
void find_activations(prepared_graph& in);

// ReduceMax and ReduceMin of tensors that Unsqueeze and Concat have put together become Max and Min. Also in the graphs
// of steps.
void reduce_without_stacks(prepared_graph& in);

// A Concat whose first inputs are those of an earlier one, two at least, reads that one. Also in the graphs of steps.
void nest_concats(prepared_graph& in);

// Sets step::gives_shape_only. Also in the graphs of steps.
void find_shapes_only(prepared_graph& in);

// For a CPU. Gemm, or MatMul and Add, with constant f32 weights (kernels/fused_mlp.hpp), where a stretch has so few
// weights that this is faster for any number of rows.
void fuse_dense_layers(prepared_graph& in, execution_context& context);

// For a CPU. Products and convolutions whose factors come from DequantizeLinear (the weights constant), and stretches
// of them with other operators between DequantizeLinear and QuantizeLinear. Says how many products. `from`: the
// network's model.
std::size_t fuse_quantized_products(prepared_graph& in, const model& from, execution_context& context);

// For a CPU. Products of DynamicQuantizeLinear's rows by constant weights. Says how many. Also in the graphs of steps.
std::size_t fuse_dynamic_products(prepared_graph& in);

// For another precision than f32, as precision.hpp says. Notes in `report` what is rounded. Also in the graphs of
// steps.
void round_products(prepared_graph& in, precision what, execution_context& context, rounding_report& report);

// Softmax of products, and products with it, as exporters write attention, with the nodes that divide into heads and
// join them (attention/attention_step.hpp): in f32 on a CPU and on a GPU, and on a GPU also in f16 and bf16. Notes in
// `report` what is rounded. Also in the graphs of steps.
void fuse_attention(prepared_graph& in, precision what, execution_context& context, rounding_report& report);

// For a GPU, in f32, f16 or bf16, before the products are rounded. Dense layers, with layer norms and activations
// between them, as one kernel for few rows (chains/row_chain_step.hpp). Notes in `report` what is rounded. Also in the
// graphs of steps.
void fuse_row_chains(prepared_graph& in, precision what, execution_context& context, rounding_report& report);

// For a GPU. One kernel, which also gives what products round (residual/residual_norm_step.hpp). Also in the graphs of
// steps.
void fuse_residual_norms(prepared_graph& in, precision what);

// For f16 or bf16. What rounded products and attention give stays in 16 bits where all that read it take it
// so. Also in the graphs of steps.
void keep_values_narrow(prepared_graph& in);

// For a CPU. Convolutions, and the poolings, additions, concatenations and elementwise operators around them
// (images/stretch.hpp). For numbers of f32.
void fuse_image_stretches(prepared_graph& in, execution_context& context);

// The same in f16 or bf16, where the device has kernels for it. Notes in `report` how many convolutions there are.
void fuse_short_image_stretches(prepared_graph& in, precision what, execution_context& context,
                                rounding_report& report);

// For a GPU. RNN, GRU and LSTM that begin with zeros. Also in the graphs of steps.
void drop_zero_states(prepared_graph& in);

// For a GPU, after what rounds these layers. Also in the graphs of steps.
void turn_recurrent_layers(prepared_graph& in);

// For a CPU. RNN, GRU and LSTM in f32, and DynamicQuantizeLSTM. Also in the graphs of steps.
void pack_recurrent_layers(prepared_graph& in);

// For a CPU. Also in the graphs of steps.
void pack_trees(prepared_graph& in, const std::filesystem::path& path, execution_context& context);

// Sets, for each step, the values that nothing after it uses. Also in the graphs of steps.
void find_last_uses(prepared_graph& in);

// Finds the values of expressions that only one other expression reads. Also in the graphs of steps.
void join_expressions(prepared_graph& in);

}  // namespace sluice::nn::detail
