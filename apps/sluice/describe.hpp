// SPDX-License-Identifier: Apache-2.0
// `sluice devices` and `sluice inspect MODEL`: reports for people (a table) and for scripts (JSON).
#pragma once

#include <filesystem>
#include <iosfwd>

#include "sluice/nn/mlp_model.hpp"

namespace sluice {
class runtime;
}

namespace sluice::app {

void describe_devices(const runtime& machine, bool as_json, std::ostream& out);
// Throws file_error for a file that is not a network. `options` name what the file does not.
void describe_model(const std::filesystem::path& model, const nn::mlp_load_options& options, bool as_json,
                    std::ostream& out);

}  // namespace sluice::app
