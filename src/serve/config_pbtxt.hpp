// SPDX-License-Identifier: Apache-2.0
// The text of Triton's config.pbtxt: what means something here, in our words.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

struct pbtxt_config {
    nlohmann::json keys;                 // those of config.json
    std::string name;                    // of the model; empty: the file does not say it
    std::string model_file;              // default_model_filename; empty: the file does not say it
    configured_tensors inputs, outputs;  // what the network must have
};

// Throws file_error for text that is no such configuration, for a field that means nothing here (with those that are
// accepted), and for values that no model here can have; errc::unsupported where Sluice was built without protobuf.
pbtxt_config parse_config_pbtxt(const std::string& text, const std::filesystem::path& file);

}  // namespace sluice::serve
