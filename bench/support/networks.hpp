// SPDX-License-Identifier: Apache-2.0
// Networks with random weights.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::bench {

inline std::vector<mlp_layer> random_network(const std::vector<std::size_t>& widths) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> some(-1, 1);
    std::vector<mlp_layer> layers;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        mlp_layer layer;
        layer.in_features = widths[i];
        layer.out_features = widths[i + 1];
        layer.weight.resize(widths[i] * widths[i + 1]);
        for (float& each : layer.weight) each = some(random) * 2 / std::sqrt(float(widths[i]));
        layer.bias.resize(widths[i + 1]);
        for (float& each : layer.bias) each = some(random);
        layer.after = i + 2 == widths.size() ? activation::none : activation::relu;
        layers.push_back(std::move(layer));
    }
    return layers;
}

}  // namespace sluice::bench
