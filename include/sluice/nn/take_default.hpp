// SPDX-License-Identifier: Apache-2.0
// take_default: an input with a default value becomes one that each call gives.
//
//     nn::model detector = nn::load_onnx("detector.onnx");
//     nn::take_default(detector, "score_threshold");  // detector.body.defaults has it
#pragma once

#include <string_view>

#include "sluice/nn/model.hpp"

namespace sluice::nn {

// Moves the input from the graph's `defaults` to the end of its `inputs`, without its constant. Throws error
// (errc::invalid_argument) that lists the inputs with a default if this is not one. Costs O(inputs).
void take_default(model& network, std::string_view name);

}  // namespace sluice::nn
