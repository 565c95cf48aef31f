// SPDX-License-Identifier: Apache-2.0
// A network of random numbers, and what it makes of inputs, in double precision.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference.hpp"
#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::conformance {

// Layers between the given numbers of features; weights such that activations keep their size.
inline std::vector<mlp_layer> random_network(random_floats& fresh, const std::vector<std::size_t>& features,
                                             activation hidden, activation last, bool biased = true) {
    std::vector<mlp_layer> layers;
    for (std::size_t i = 0; i + 1 < features.size(); ++i) {
        const std::size_t in = features[i], out = features[i + 1];
        const float scale = std::sqrt((hidden == activation::relu ? 6.0f : 3.0f) / static_cast<float>(in));
        layers.push_back({in, out, fresh(in * out, scale), biased ? fresh(out, 0.5f) : floats{},
                          i + 2 == features.size() ? last : hidden});
    }
    return layers;
}

template <typename T>
std::vector<T> rounded(const floats& values) {
    std::vector<T> made;
    made.reserve(values.size());
    for (const float each : values) made.push_back(T(each));
    return made;
}

// For inputs and weights of type T.
template <typename T>
doubles network_reference(const std::vector<mlp_layer>& layers, const std::vector<T>& inputs) {
    floats x(inputs.begin(), inputs.end());
    doubles y;
    for (const mlp_layer& layer : layers) {
        floats weight(layer.weight);
        for (float& each : weight) each = T(each);
        y = activated(product(x, weight, layer.bias, inputs.size() / layers.front().in_features, layer.out_features,
                              layer.in_features, true),
                      layer.after, layer.out_features);
        x.assign(y.begin(), y.end());
    }
    return y;
}

// How far the result may be off: the element type's rounding between the layers.
template <typename T>
constexpr double fused_bound = std::same_as<T, float> ? 1e-5 : 1e-2;

template <typename T>
floats as_floats(const std::vector<T>& values) {
    return floats(values.begin(), values.end());
}

}  // namespace sluice::conformance
