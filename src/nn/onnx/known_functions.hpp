// SPDX-License-Identifier: Apache-2.0
// Operators that ONNX Runtime's optimiser and quantiser write (domain com.microsoft), as functions of ONNX's own.
#pragma once

#include "sluice/nn/model.hpp"
#include "sluice/nn/own_operator.hpp"

namespace sluice::nn::detail {

// Replaces such nodes, those of graphs inside too, unless the user has an operator of that name. Throws file_error,
// with the file and the node, for one that has what its function does not know.
void expand_known_functions(model& of, const own_operators& own);

}  // namespace sluice::nn::detail
