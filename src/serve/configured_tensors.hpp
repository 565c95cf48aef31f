// SPDX-License-Identifier: Apache-2.0
// What a configuration says of a model's inputs and outputs, compared with the network.
#pragma once

#include <filesystem>

#include "sluice/serve/engine.hpp"
#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

// Each tensor of the configuration must be one of the network's, of its type and with dims that fit its shape; where
// inputs are listed, all must be. Throws file_error that names the tensor and what the network has.
void require_configured_tensors(const std::filesystem::path& file, const model_config& config,
                                const loaded_model& network);

}  // namespace sluice::serve
