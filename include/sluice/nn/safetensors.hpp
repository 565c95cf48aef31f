// SPDX-License-Identifier: Apache-2.0
// Multi-layer perceptrons from safetensors files, as models that make_network takes.
//
//     const nn::network digits = sync(nn::make_network(nn::load_safetensors("digits.safetensors")), pool);
//
// All functions here take time at most linear in the number of layers, but for loading, which is linear in the bytes of
// the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sluice/io/safetensors.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn {

// The activations between and after the layers have no tensors, so the file must name them in its metadata, or the
// caller here. Both may, when they agree.
struct safetensors_options {
    // What follows each layer but the last: "activation" in the metadata.
    std::optional<activation> hidden = std::nullopt;
    // What follows the last layer: "output_activation"; none when neither names it.
    std::optional<activation> output = std::nullopt;
};

// Reads an MLP that was saved from a PyTorch nn.Sequential: "0.weight", "0.bias", "2.weight", ..., optionally
// all under one prefix ("net.0.weight"). Layers are ordered by number; the weights may be f32, f16 or bf16, and are f32
// in the model. The numbers must fit the hidden activation: layers are at 0, 2, 4, ... with the activation between
// them; with none, the next layer may also follow at once (0, 1, 2, ...). Other gaps are modules that the file does not
// show. The model is what to_model makes of the layers: its input is "input" [batch, in features], its output "output"
// [batch, out features].
//
// Throws file_error, naming file, offset and tensor, when the file is not a valid safetensors file or not such a
// network: nothing says the hidden activation (of a single layer: either activation), the file and the options say
// different ones, unknown activations or metadata, numbers that do not fit, layers that do not chain, weights without
// two dimensions, a bias of another length or without its weight, other tensors, no layers, layers of size zero; and
// when the host's memory is too small for the weights (errc::out_of_memory), or the file is changed while it is read.
model load_safetensors(const std::filesystem::path& path, const safetensors_options& options = {});
// The same from a file in memory. The model copies what it needs: the view may be destroyed afterwards.
model load_safetensors(const io::safetensors_view& file, const safetensors_options& options = {});

// The names of activations that files and options may use, for messages: "none, identity, linear, relu, ...".
std::string accepted_activations();

}  // namespace sluice::nn
