// SPDX-License-Identifier: Apache-2.0
// A multi-layer perceptron in host memory, as read from a safetensors file.
//
// All functions here take time at most linear in the number of layers, but for loading, which is linear in the bytes of
// the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sluice/io/safetensors.hpp"
#include "sluice/kernels/activation.hpp"

namespace sluice::nn {

// y = after(x · weightᵀ + bias)
struct dense_layer {
    std::string name;                             // as in the file, without ".weight": "0", "net.2"
    std::size_t in_features = 0;                  // numbers of a row that goes in
    std::size_t out_features = 0;                 // numbers of a row that comes out
    std::vector<float> weight;                    // {out_features, in_features}, row-major
    std::vector<float> bias;                      // {out_features}, or empty when the layer has none
    activation after = sluice::activation::none;  // applied to the layer's output
};

// A network of dense layers, one after the other.
struct mlp_model {
    std::vector<dense_layer> layers;  // each one's in_features is its predecessor's out_features

    // Need at least one layer.
    std::size_t in_features() const noexcept { return layers.front().in_features; }
    std::size_t out_features() const noexcept { return layers.back().out_features; }  // of the last layer
    // Weights and biases together.
    std::size_t parameters() const noexcept;
};

// The activations between and after the layers have no tensors, so the file must name them in its metadata, or the
// caller here. Both may, when they agree.
struct mlp_load_options {
    std::optional<activation> hidden =
        std::nullopt;  // what follows each layer but the last: "activation" in the metadata
    std::optional<activation> output =
        std::nullopt;  // what follows the last layer: "output_activation"; none when neither names it
};

// Reads an MLP that was saved from a PyTorch nn.Sequential: "0.weight", "0.bias", "2.weight", ..., optionally
// all under one prefix ("net.0.weight"). Layers are ordered by number; the weights may be f32, f16 or bf16.
// The numbers must fit the hidden activation: layers are at 0, 2, 4, ... with the activation between them; with none,
// the next layer may also follow at once (0, 1, 2, ...). Other gaps are modules that the file does not show.
//
// Throws file_error, naming file, offset and tensor, when the file is not a valid safetensors file or not such a
// network: nothing says the hidden activation (of a single layer: either activation), the file and the options say
// different ones, unknown activations or metadata, numbers that do not fit, layers that do not chain, weights without
// two dimensions, a bias of another length or without its weight, other tensors, no layers, layers of size zero; and
// when the host's memory is too small for the weights (errc::out_of_memory), or the file is changed while it is read.
mlp_model load_mlp(const std::filesystem::path& path, const mlp_load_options& options = {});
// The same from a file in memory. The model copies what it needs: the view may be destroyed afterwards.
mlp_model load_mlp(const io::safetensors_view& file, const mlp_load_options& options = {});

// The names of activations that files and options may use, for messages: "none, identity, linear, relu, ...".
std::string accepted_activations();

}  // namespace sluice::nn
