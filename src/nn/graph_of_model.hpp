// SPDX-License-Identifier: Apache-2.0
// From the names of a model's values to the slots of a prepared graph.
#pragma once

#include "nn/operators/own.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// The nodes in order, with their operators, and the constants in host memory. The model outlives the graph. Throws
// file_error (errc::unsupported for operators that are not known, all of them at once).
prepared_graph graph_of_model(const model& from, const operators::known_to_network& known);

}  // namespace sluice::nn::detail
