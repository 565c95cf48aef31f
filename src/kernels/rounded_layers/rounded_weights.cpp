// SPDX-License-Identifier: Apache-2.0
// The weights of rounded layers: which can be rounded, and how they are in memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels {
namespace {

// Infinite where a number is NaN or infinite.
float largest_magnitude(std::span<const float> of) {
    float largest = 0;
    for (const float each : of) {
        if (!std::isfinite(each)) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, std::abs(each));
    }
    return largest;
}

void pack_floats(rounded_type type, const mlp_layer& layer, std::byte* to) {
    const std::size_t in = layer.in_features, padded = padded_inputs(type, in), group = group_of(type);
    for (std::size_t c = 0; c < layer.out_features; ++c) {
        const float* const from = layer.weight.data() + c * in;
        std::byte* const panel = to + c / rounded_panel * padded * rounded_panel * 2;
        for (std::size_t k = 0; k < in; ++k) {
            const std::uint16_t bits = type == rounded_type::bf16 ? bfloat16(from[k]).bits() : half(from[k]).bits();
            const std::size_t at = (k / group * rounded_panel + c % rounded_panel) * group + k % group;
            std::memcpy(panel + at * 2, &bits, sizeof(bits));
        }
    }
}

// Also the steps and the sums of columns.
void pack_integers(const mlp_layer& layer, const rounded_layer_places& at, std::byte* to) {
    const std::size_t in = layer.in_features, padded = padded_inputs(rounded_type::int8, in);
    for (std::size_t c = 0; c < layer.out_features; ++c) {
        const std::span from(layer.weight.data() + c * in, in);
        const float largest = largest_magnitude(from), step = largest / 127;
        std::byte* const panel = to + c / rounded_panel * padded * rounded_panel;
        std::int32_t sum = 0;
        for (std::size_t k = 0; k < in; ++k) {
            const int q = step != 0 ? static_cast<int>(std::rint(std::clamp(from[k] / step, -127.0f, 127.0f))) : 0;
            panel[(k / 4 * rounded_panel + c % rounded_panel) * 4 + k % 4] = static_cast<std::byte>(q);
            sum += q;
        }
        std::memcpy(to + at.steps + c * sizeof(step), &step, sizeof(step));
        std::memcpy(to + at.column_sums + c * sizeof(sum), &sum, sizeof(sum));
    }
}

}  // namespace

row_quantity quantity_of(const number_range& range) noexcept {
    if (!range.is_finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
    const float scale = (range.high - range.low) / 255;
    if (!(scale > 0)) return {1, 0};
    return {scale, static_cast<std::int32_t>(std::rint(std::clamp(-range.low / scale, 0.0f, 255.0f)))};
}

rounded_layer_places places_of(rounded_type type, std::size_t in, std::size_t out) {
    const std::size_t columns = panels_of_columns(out) * rounded_panel;
    const std::size_t of_columns = aligned_bytes(columns * sizeof(float));
    const std::size_t biases = aligned_bytes(padded_inputs(type, in) * columns * weight_bytes(type));
    if (type != rounded_type::int8) return {biases, biases, biases, biases + of_columns};
    return {biases, biases + of_columns, biases + 2 * of_columns, biases + 3 * of_columns};
}

std::string_view why_not_rounded(rounded_type type, const mlp_layer& layer) {
    if (std::max(layer.in_features, layer.out_features) > most_rounded_features) return "it is wider than 65535";
    const float smallest_normal = std::numeric_limits<float>::min();
    float largest = 0;
    for (std::size_t c = 0; c < layer.out_features; ++c) {
        const std::span from(layer.weight.data() + c * layer.in_features, layer.in_features);
        const float of_column = largest_magnitude(from);
        if (std::isinf(of_column)) return "a weight is not finite";
        if (type == rounded_type::int8 && of_column != 0 && of_column / 127 < smallest_normal)
            return "the weights of an output are too small for int8";
        largest = std::max(largest, of_column);
    }
    if (type == rounded_type::f16 && std::isinf(float{half(largest)})) return "a weight is too large for f16";
    // All of them would lose bits.
    if (type == rounded_type::f16 && largest != 0 && largest < 0x1p-14f) return "the weights are too small for f16";
    if (type == rounded_type::bf16 && std::isinf(float{bfloat16(largest)})) return "a weight is too large for bf16";
    if (type == rounded_type::bf16 && largest != 0 && largest < smallest_normal)
        return "the weights are too small for bf16";
    return {};
}

rounded_form form_of(rounded_type type, const std::vector<mlp_layer>& layers) {
    rounded_form made;
    made.type = type;
    made.layers = static_cast<unsigned char>(layers.size());
    made.features[0] = static_cast<std::uint32_t>(layers.front().in_features);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        made.features[i + 1] = static_cast<std::uint32_t>(layers[i].out_features);
        made.after[i] = layers[i].after;
    }
    return made;
}

std::vector<std::byte> rounded_image(rounded_type type, const std::vector<mlp_layer>& layers) {
    std::vector<std::byte> image;
    for (const mlp_layer& layer : layers) {
        const rounded_layer_places at = places_of(type, layer.in_features, layer.out_features);
        const std::size_t first = image.size();
        image.resize(first + at.end);
        std::byte* const to = image.data() + first;
        type == rounded_type::int8 ? pack_integers(layer, at, to) : pack_floats(type, layer, to);
        if (!layer.bias.empty()) std::memcpy(to + at.biases, layer.bias.data(), layer.bias.size() * sizeof(float));
    }
    return image;
}

}  // namespace sluice::kernels
