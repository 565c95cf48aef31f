// SPDX-License-Identifier: Apache-2.0
// The layers of a perceptron as the kernels take them.
#pragma once

#include <vector>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/nn/mlp_model.hpp"

namespace sluice::nn {

inline std::vector<mlp_layer> layers_of(const mlp_model& model) {
    std::vector<mlp_layer> layers;
    layers.reserve(model.layers.size());
    for (const dense_layer& each : model.layers)
        layers.push_back({each.in_features, each.out_features, each.weight, each.bias, each.after});
    return layers;
}

}  // namespace sluice::nn
