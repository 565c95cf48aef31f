// A multi-layer perceptron in host memory, as read from a safetensors file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice/kernels/activation.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::nn {

// y = after(x · weightᵀ + bias)
struct dense_layer {
    std::string name;  // as in the file, without ".weight": "0", "net.2"
    std::size_t in_features = 0;
    std::size_t out_features = 0;
    std::vector<float> weight;                    // {out_features, in_features}, row-major
    std::vector<float> bias;                      // {out_features}, or empty when the layer has none
    activation after = sluice::activation::none;  // applied to the layer's output
};

struct mlp_model {
    std::vector<dense_layer> layers;  // each one's in_features is its predecessor's out_features

    // Need at least one layer.
    std::size_t in_features() const noexcept { return layers.front().in_features; }
    std::size_t out_features() const noexcept { return layers.back().out_features; }
    // Weights and biases together.
    std::size_t parameters() const noexcept;
};

// Reads an MLP that was saved from a PyTorch nn.Sequential: "0.weight", "0.bias", "2.weight", ..., optionally
// all under one prefix ("net.0.weight"). Layers are ordered by number; the weights may be f32, f16 or bf16.
// The metadata string "activation" names what follows each hidden layer (relu when it is missing) and
// "output_activation" what follows the last (none when it is missing).
//
// Throws file_error, naming file, offset and tensor, when the file is not a valid safetensors file or not such a
// network: layers that do not chain, weights without two dimensions, a bias of another length or without its
// weight, other tensors, no layers, layers of size zero, unknown activations.
mlp_model load_mlp(const std::filesystem::path& path);
// The same from a file in memory. The model copies what it needs: the view may die afterwards.
mlp_model load_mlp(const safetensors_view& file);

}  // namespace sluice::nn
