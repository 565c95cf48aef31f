// SPDX-License-Identifier: Apache-2.0
// with_distinct_names: names by which a trace's commands are found again in a network.
#pragma once

#include "sluice/nn/model.hpp"

namespace sluice::profiling {

// The same network, in which each node has a name that no other has: "#3 Relu" for the node at place 3 that has none,
// and the node's place added where two have one name. Nodes of inner graphs too. Costs O(n log n) comparisons of names
// for n nodes, and copies of the inner graphs.
nn::model with_distinct_names(nn::model network);

}  // namespace sluice::profiling
