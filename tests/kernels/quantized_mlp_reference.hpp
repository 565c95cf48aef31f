// SPDX-License-Identifier: Apache-2.0
// What a network of 8-bit numbers gives by its definition (sluice/kernels/quantized_mlp.hpp), in plain code of its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/reference.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/quantized_mlp.hpp"

namespace sluice::conformance {

// The nearest of the 256 elements, the even one of two: by comparison with all of them.
template <typename T>
T nearest_8_bits(float x) {
    const auto element = [](unsigned bits) {
        if constexpr (std::is_same_v<T, f8_e4m3>)
            return f8_e4m3::from_bits(static_cast<std::uint8_t>(bits));
        else
            return static_cast<std::int8_t>(bits);
    };
    if (std::isnan(x)) return std::is_same_v<T, f8_e4m3> ? element(0x7f) : element(0);
    if (std::isinf(x)) x = std::copysign(1e9f, x);  // no distance from infinity is smaller than another
    unsigned best = std::signbit(x) && std::is_same_v<T, f8_e4m3> ? 0x80 : 0;
    for (unsigned bits = 0; bits < 256; ++bits) {
        const float here = static_cast<float>(element(bits)), there = static_cast<float>(element(best));
        if (std::isnan(here) || std::signbit(here) != std::signbit(x)) continue;
        const double near = std::fabs(double{x} - double{here}), far = std::fabs(double{x} - double{there});
        if (near < far || (near == far && bits % 2 == 0)) best = bits;
    }
    return element(best);
}

// The same from a table, for whole networks.
template <typename T>
T rounded_for_reference(float x) {
    return kernels::rounded_to_8_bits<T>(x);  // compared with nearest_8_bits in a test
}

template <typename T>
std::vector<T> quantized_reference(const std::vector<mlp_layer>& layers, const mlp_scales& scales,
                                   const std::vector<T>& inputs) {
    std::vector<T> x = inputs;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const mlp_layer& layer = layers[i];
        const std::size_t in = layer.in_features, out = layer.out_features, rows = x.size() / in;
        const double s = i == 0 ? scales.input : scales.outputs[i - 1], w = scales.weights[i], y = scales.outputs[i];
        const bool is_linear = layer.after == activation::none || layer.after == activation::relu;
        const auto factor = static_cast<float>(is_linear ? s * w / y : s * w);
        const auto gain = static_cast<float>(1 / y);
        std::vector<T> made(rows * out);
        floats row(out), weight(layer.weight);
        for (float& each : weight) each = static_cast<float>(rounded_for_reference<T>(each * (1 / scales.weights[i])));
        for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = 0; c < out; ++c) {
                float sum = 0;
                for (std::size_t k = 0; k < in; ++k) sum += static_cast<float>(x[r * in + k]) * weight[c * in + k];
                const double bias = layer.bias.empty() ? 0 : layer.bias[c];
                row[c] = std::fma(sum, factor, static_cast<float>(is_linear ? bias / y : bias));
                row[c] = kernels::activated(row[c], layer.after);
            }
            if (layer.after == activation::softmax) {
                doubles shares(row.begin(), row.end());
                softmax_reference(shares, out);
                row.assign(shares.begin(), shares.end());
            }
            for (std::size_t c = 0; c < out; ++c) {
                made[r * out + c] = rounded_for_reference<T>(is_linear ? row[c] : row[c] * gain);
            }
        }
        x = made;
    }
    return x;
}

// The elements that stand for these numbers.
template <typename T>
std::vector<T> quantized(const floats& numbers, float scale) {
    std::vector<T> made;
    made.reserve(numbers.size());
    for (const float each : numbers) made.push_back(rounded_for_reference<T>(each * (1 / scale)));
    return made;
}

}  // namespace sluice::conformance
