// SPDX-License-Identifier: Apache-2.0
// `sluice devices` and `sluice inspect MODEL.safetensors`: reports for people (a table) and for scripts (JSON).
#pragma once

#include <filesystem>
#include <iosfwd>

#include "sluice/nn/mlp_model.hpp"

namespace sluice {
class runtime;
}

namespace sluice::app {

void describe_devices(const runtime& machine, bool as_json, std::ostream& out);
// Of a multi-layer perceptron, which was read from this file.
void describe_layers(const nn::mlp_model& network, const std::filesystem::path& model, bool as_json, std::ostream& out);

}  // namespace sluice::app
