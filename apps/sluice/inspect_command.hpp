// SPDX-License-Identifier: Apache-2.0
// `sluice inspect`: what is in a network, as a table and as a picture.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sluice/nn/safetensors.hpp"

namespace sluice::app {

struct inspect_options {
    std::filesystem::path model;
    nn::safetensors_options network;
    bool passes = false;                           // also what each pass makes of it
    std::string device = "auto";                   // for which
    std::string precision = "f32";                 // in which
    std::optional<std::filesystem::path> picture;  // SVG
};

// Blocks. Throws file_error for a file that is not a network, and with `passes` as nn::make_network.
void inspect(const inspect_options& options, bool as_json, std::ostream& out);

}  // namespace sluice::app
