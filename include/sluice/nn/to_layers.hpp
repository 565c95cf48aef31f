// SPDX-License-Identifier: Apache-2.0
// The layers of a model that is a multi-layer perceptron, in host memory: for pack_mlp, pack_quantized_mlp and
// make_plan.
//
//     const std::vector<mlp_layer> layers = nn::to_layers(nn::load_onnx("digits.onnx"));
#pragma once

#include <vector>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn {

// Accepts networks of f32 with one input and one output, in which each node follows the one before: Gemm, or MatMul and
// an Add after it, with constant weights; Relu, Gelu (exact), Sigmoid, Tanh or Softmax (of the rows) after a layer;
// Identity, Dropout, and Flatten of all but the first dimension. The weights are copied; factors of a Gemm are
// multiplied into them. Rows are independent of each other, so the number of rows may be another than the file's.
//
// Throws file_error that names the file and the node: first one that lists all nodes with operators that are not
// supported here, then what is wrong with a node, e.g. a weight that is no constant, or shapes that do not fit. Costs
// O(parameters + nodes), and a look-up of each constant.
std::vector<mlp_layer> to_layers(const model& network);

}  // namespace sluice::nn
