// SPDX-License-Identifier: Apache-2.0
// `sluice inspect MODEL.onnx` and `sluice operators`.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace sluice::app {

// The inputs, outputs and nodes of any network that nn::load_onnx reads, and whether `sluice run` runs it. Throws
// file_error as nn::load_onnx.
void describe_onnx(const std::filesystem::path& model, bool as_json, std::ostream& out);

// `sluice operators`: nn::known_operators, as a table of Markdown or as JSON. Versions of one operator are one line.
void describe_operators(bool as_json, std::ostream& out);

}  // namespace sluice::app
