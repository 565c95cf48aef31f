// SPDX-License-Identifier: Apache-2.0
// Networks from the files that users name: ONNX by the ending .onnx, trees as nn::is_tree_file says, else
// safetensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sluice/nn/onnx.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::app {

bool is_onnx(const std::filesystem::path& model);

// Throws as nn::load_onnx, nn::load_trees and nn::load_safetensors; and error (errc::invalid_argument) for options with
// an ONNX file or trees, because such a file has its activations as nodes, or none.
nn::model load_model(const std::filesystem::path& model, const nn::safetensors_options& options,
                     nn::data_links links = nn::data_links::stay_in_folder);
// The same from the bytes of the file. External data of an ONNX file is read from its folder here.
nn::model read_model(std::span<const std::byte> file, const std::filesystem::path& model,
                     const nn::safetensors_options& options, nn::data_links links);

// What --follow-links says.
nn::data_links links_of(bool follows_links);

}  // namespace sluice::app
