// SPDX-License-Identifier: Apache-2.0
// Functions of an ONNX model: operators that the file itself defines by other nodes.
#pragma once

#include <filesystem>

#include "sluice/nn/own_operator.hpp"

namespace sluice::nn::onnx {
class ModelProto;
}

namespace sluice::nn::detail {

// Replaces each node that calls a function by the function's nodes, also in inner graphs, unless `own` has the
// operator. The values inside get names
// that begin with the calling node's. Throws file_error: for functions that call each other in a circle, or that make
// more nodes than a model may have; for attributes that a function does not have; for a function that is written for
// another version of an operator set than the model.
void inline_functions(const std::filesystem::path& path, onnx::ModelProto& file, const own_operators& own);

}  // namespace sluice::nn::detail
