// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM of f32 and DynamicQuantizeLSTM on a CPU: one command (kernels/recurrent/recurrent.hpp), with weights
// that a pass may have packed before (passes/recurrent_layers.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/recurrent/recurrent.hpp"
#include "nn/operators/node_call.hpp"
#include "nn/operators/recurrent_activation.hpp"
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {

// A node whose shapes are checked.
struct recurrent_on_cpu_node {
    kernels::recurrent_form form;
    bool is_batch_first;
    std::uint64_t reversed;                             // bit d: direction d begins at the end
    bool has_integers;                                  // a DynamicQuantizeLSTM
    std::span<const recurrent_activation> activations;  // of one direction after the other
};

// Whether the node is of f32 and is to run on a CPU device.
bool is_recurrent_on_cpu(const node_call& in);
// Makes the outputs that are wanted. There is a step at least.
void run_recurrent_on_cpu(node_call& in, const recurrent_on_cpu_node& of);

// The same operator with one more input, at this place: the image of its constant weights. Of these only the shapes
// matter then.
inline constexpr std::size_t recurrent_image_input = 8;
// Likewise of a DynamicQuantizeLSTM, which runs so on a CPU only with this input.
inline constexpr std::size_t recurrent_integers_input = 12;
const definition& packed_recurrent(const definition& of);

}  // namespace sluice::nn::operators
