// SPDX-License-Identifier: Apache-2.0
// A graph of commands, as graph_layout places it.
#pragma once

#include <functional>

#include "drawing/graph_layout.hpp"
#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

// `size_of` returns how large a box must be for a node's words. Edges out of one node over the same memory, for the
// same reason, share their way.
layout_graph to_layout(const command_graph& graph, const std::function<drawing_size(const graph_node&)>& size_of);

}  // namespace sluice::detail
