// SPDX-License-Identifier: Apache-2.0
// Random networks, and what they give in double precision.
#pragma once

#include <type_traits>
#include <vector>

#include "kernels/reference.hpp"
#include "sluice/base/half.hpp"
#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::nn::testing {

using conformance::doubles;
using conformance::floats;
using conformance::random_floats;

template <typename T>
floats widened(const std::vector<T>& values) {
    return floats(values.begin(), values.end());
}
template <typename T>
std::vector<T> rounded(const floats& values) {
    std::vector<T> made;
    for (const float each : values) made.push_back(T(each));
    return made;
}
// What the elements' rounding allows, relative to the largest output.
template <typename T>
inline constexpr double bound = std::is_same_v<T, float>  ? 2e-5
                                : std::is_same_v<T, half> ? 4e-3
                                                          : 2e-2;

struct network_options {
    activation hidden = activation::relu;
    activation output = activation::none;
    bool has_bias = true;
};

// Weights are scaled so that values neither die out nor explode.
inline std::vector<mlp_layer> random_network(const std::vector<std::size_t>& widths, random_floats& fresh,
                                             const network_options& options = {}) {
    std::vector<mlp_layer> layers;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        mlp_layer layer;
        layer.name = std::to_string(2 * i);
        layer.in_features = widths[i];
        layer.out_features = widths[i + 1];
        layer.weight = fresh(widths[i] * widths[i + 1], 2 / std::sqrt(static_cast<float>(widths[i])));
        if (options.has_bias) layer.bias = fresh(widths[i + 1]);
        layer.after = i + 2 == widths.size() ? options.output : options.hidden;
        layers.push_back(std::move(layer));
    }
    return layers;
}

inline doubles outputs_of(const std::vector<mlp_layer>& layers, const floats& inputs) {
    doubles x(inputs.begin(), inputs.end());
    for (const mlp_layer& layer : layers) {
        const std::size_t rows = x.size() / layer.in_features;
        doubles y(rows * layer.out_features);
        for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t row = i / layer.out_features, out = i % layer.out_features;
            y[i] = layer.bias.empty() ? 0 : layer.bias[out];
            for (std::size_t k = 0; k < layer.in_features; ++k) {
                y[i] += x[row * layer.in_features + k] * double{layer.weight[out * layer.in_features + k]};
            }
        }
        x = conformance::activated(std::move(y), layer.after, layer.out_features);
    }
    return x;
}

}  // namespace sluice::nn::testing
