// SPDX-License-Identifier: Apache-2.0
// The image of a quantized_mlp on a GPU.
#include <cstring>
#include <vector>

#include "kernels/quantized_mlp/quantized_mlp_layout.hpp"

namespace sluice::kernels {
namespace {

struct quantized_place {
    float* biases;
    std::byte* weights;
};

template <typename T>
void pack_quantized_layer(const mlp_layer& layer, float scale, bool is_first, bool is_last, std::size_t width,
                          const quantized_place& to) {
    const float by = 1 / scale;
    for (std::size_t n = 0; n < width; ++n) {
        const std::size_t row = is_last ? eight_bit::output_column(n) : n;
        if (row >= layer.out_features) continue;  // padding: zeros
        if (!layer.bias.empty()) to.biases[fused_bias_index(n)] = layer.bias[row];
        for (std::size_t k = 0; k < width; ++k) {
            const std::size_t column = is_first ? eight_bit::input_column(k) : eight_bit::hidden_column(k);
            if (column >= layer.in_features) continue;
            const T made = rounded_to_8_bits<T>(layer.weight[row * layer.in_features + column] * by);
            std::memcpy(to.weights + eight_bit::weight_offset(k, n, width), &made, 1);
        }
    }
}

}  // namespace

template <detail::eight_bit_element T>
std::vector<std::byte> quantized_image_for_cuda(const std::vector<mlp_layer>& layers, const std::vector<float>& scales,
                                                std::size_t width) {
    const std::size_t bias_bytes = fused_bias_bytes(layers.size(), width);
    std::vector<float> biases(layers.size() * width);
    std::vector<std::byte> image(bias_bytes + layers.size() * eight_bit::layer_bytes(width));
    for (std::size_t i = 0; i < layers.size(); ++i) {
        pack_quantized_layer<T>(
            layers[i], scales[i], i == 0, i + 1 == layers.size(), width,
            {biases.data() + i * width, image.data() + bias_bytes + i * eight_bit::layer_bytes(width)});
    }
    std::memcpy(image.data(), biases.data(), bias_bytes);
    return image;
}
template std::vector<std::byte> quantized_image_for_cuda<f8_e4m3>(const std::vector<mlp_layer>&,
                                                                  const std::vector<float>&, std::size_t);
template std::vector<std::byte> quantized_image_for_cuda<std::int8_t>(const std::vector<mlp_layer>&,
                                                                      const std::vector<float>&, std::size_t);

}  // namespace sluice::kernels
