// SPDX-License-Identifier: Apache-2.0
// A multi-layer perceptron as a network of Gemm nodes and activations: input "input" [batch, in], output "output"
// [batch, out].
#pragma once

#include <filesystem>

#include "sluice/nn/mlp_model.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::serve {

nn::model to_network(const nn::mlp_model& from, const std::filesystem::path& file);

}  // namespace sluice::serve
