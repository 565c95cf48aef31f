// SPDX-License-Identifier: Apache-2.0
// The configuration of a model as Triton's message.
#pragma once

#include <inference.pb.h>
#include "serve/triton_config.hpp"

namespace sluice::serve {

void write_config(inference::ModelConfig& to, const triton_config& from);

}  // namespace sluice::serve
