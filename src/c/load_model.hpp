// SPDX-License-Identifier: Apache-2.0
// A model that is in memory as a network of the C interface.
#pragma once

#include <string_view>

#include "c/handles.hpp"

namespace sluice::c {

// Refuses options that are only for files.
sluice_network_options read_network_options(const sluice_network_options* options, std::string_view function);

// Its profile has the same constants. The caller owns it.
sluice_network* load_model(const sluice_runtime& runtime, const sluice_network_options& options,
                           std::string_view function, nn::model made);

}  // namespace sluice::c
