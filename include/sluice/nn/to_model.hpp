// SPDX-License-Identifier: Apache-2.0
// A multi-layer perceptron as a model, which make_network takes: the reverse of to_layers.
//
//     const auto network = sync(nn::make_network(nn::to_model({{64, 10, weight, bias, activation::relu}})), pool);
#pragma once

#include <filesystem>
#include <vector>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn {

// A model with the input "input" [batch, in features], the output "output" [batch, out features], both f32, and a
// product with its activation for each layer. The weights are copied. `path` is for messages. Throws
// errc::invalid_argument for no layers. Costs O(parameters).
model to_model(const std::vector<mlp_layer>& layers, std::filesystem::path path = {});

}  // namespace sluice::nn
