// SPDX-License-Identifier: Apache-2.0
// The scales of a network in 8 bits, from what its layers make of a sample.
#include <cmath>
#include <string>

#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "sluice/base/error.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/kernels/quantized_mlp.hpp"

namespace sluice {
namespace {

constexpr std::string_view calibrating = "calibrate_mlp";

// The largest magnitude; not finite when one of the numbers is not.
float largest_magnitude(std::span<const float> numbers) {
    float largest = 0;
    for (const float each : numbers) {
        const float size = std::fabs(each);
        if (!(size <= largest)) largest = size;
        if (!std::isfinite(size)) break;
    }
    return largest;
}

std::vector<float> outputs_of(const mlp_layer& layer, std::span<const float> x, std::size_t rows) {
    std::vector<float> made(rows * layer.out_features);
    for (std::size_t r = 0; r < rows; ++r) {
        const float* const row = x.data() + r * layer.in_features;
        float* const out = made.data() + r * layer.out_features;
        for (std::size_t c = 0; c < layer.out_features; ++c) {
            const float* const weight = layer.weight.data() + c * layer.in_features;
            float sum = layer.bias.empty() ? 0 : layer.bias[c];
            for (std::size_t k = 0; k < layer.in_features; ++k) sum += row[k] * weight[k];
            out[c] = kernels::activated(sum, layer.after);
        }
        if (layer.after == activation::softmax) kernels::best_cpu_loops().softmax(out, 0, 1, layer.out_features);
    }
    return made;
}

float scale_for(float largest, float most) { return largest == 0 ? 1 / most : largest / most; }

void require_finite(float largest, const std::string& where, const error_context& context) {
    if (std::isfinite(largest)) return;
    throw error(errc::invalid_argument, where + " a number that is not finite; numbers of 8 bits stand for finite ones",
                context);
}

}  // namespace

template <detail::eight_bit_element T>
mlp_scales calibrate_mlp(const std::vector<mlp_layer>& layers, std::span<const float> rows, source_location location) {
    const error_context context{calibrating, "", location};
    const std::size_t in = detail::check_fused_mlp(layers, location, calibrating).in_features;
    if (rows.empty() || rows.size() % in != 0) {
        throw error(errc::invalid_argument,
                    "the sample has " + std::to_string(rows.size()) + " numbers; it takes whole rows of " +
                        std::to_string(in) + ", one at least",
                    context);
    }
    constexpr float most = kernels::largest_of<T>;
    const std::size_t count = rows.size() / in;
    mlp_scales made;
    const float of_rows = largest_magnitude(rows);
    require_finite(of_rows, "the sample has", context);
    made.input = scale_for(of_rows, most);
    std::vector<float> x(rows.begin(), rows.end());
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string layer = "layer " + std::to_string(i + 1);
        const float of_weights = largest_magnitude(layers[i].weight);
        require_finite(of_weights, layer + " has", context);
        made.weights.push_back(scale_for(of_weights, most));
        x = outputs_of(layers[i], x, count);
        const float of_outputs = largest_magnitude(x);
        require_finite(of_outputs, layer + " makes of the sample", context);
        made.outputs.push_back(scale_for(of_outputs, most));
    }
    return made;
}
template mlp_scales calibrate_mlp<f8_e4m3>(const std::vector<mlp_layer>&, std::span<const float>, source_location);
template mlp_scales calibrate_mlp<std::int8_t>(const std::vector<mlp_layer>&, std::span<const float>, source_location);

}  // namespace sluice
