// SPDX-License-Identifier: Apache-2.0
// The activations of an RNN, GRU or LSTM node.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/recurrent/recurrent_activation.hpp"
#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

using kernels::recurrent_activation;
using kernels::recurrent_curve;

// Those of a node, one direction after the other: what it names, or in each direction the usual ones, in lower case.
std::vector<recurrent_activation> recurrent_activations(const node_call& in, std::size_t directions,
                                                        std::span<const std::string_view> usual);

}  // namespace sluice::nn::operators
