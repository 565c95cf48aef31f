// SPDX-License-Identifier: Apache-2.0
// Networks from the files that users name: ONNX by the ending .onnx, else safetensors.
#pragma once

#include <filesystem>

#include "sluice/nn/mlp_model.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::app {

bool is_onnx(const std::filesystem::path& model);

// Throws as nn::load_mlp; for an ONNX file as nn::load_onnx and nn::to_mlp, and error (errc::invalid_argument) for
// options, because such a file has the activations as nodes.
nn::mlp_model load_network(const std::filesystem::path& model, const nn::mlp_load_options& options,
                           nn::data_links links = nn::data_links::stay_in_folder);

// What --follow-links says.
nn::data_links links_of(bool follows_links);

}  // namespace sluice::app
