// SPDX-License-Identifier: Apache-2.0
// A model that is a multi-layer perceptron, as an mlp_model, which make_plan takes.
//
//     const nn::plan network = sync(nn::make_plan(nn::to_mlp(nn::load_onnx("digits.onnx"))), pool);
#pragma once

#include "sluice/nn/mlp_model.hpp"
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
mlp_model to_mlp(const model& network);

}  // namespace sluice::nn
