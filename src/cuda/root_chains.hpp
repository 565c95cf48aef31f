// SPDX-License-Identifier: Apache-2.0
// The order in which small fills and copies at the beginning of a CUDA graph run.
//
// A node that waits for two branches starts about a microsecond later than a node that waits for one (H200). Pipelines
// often begin with such branches: an upload and two cleared tensors, each for another kernel. Small fills and copies
// that nothing precedes are therefore put one after the other where one kernel, or the kernels after it, need them all:
//
//     copy -------.                       copy -> fill -> fill -> kernel -> kernel
//     fill ----> kernel -> kernel   =>
//     fill ----------------^
//
// They still run at the same time: each starts early, works, and only then waits for the one before it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::cuda {

class root_chains {
public:
    // `can_chain[i]`: node i is a small fill or copy by our kernel. Those with predecessors stay as they are.
    root_chains(const command_graph& of, const std::vector<bool>& can_chain);

    // The edges to node i: those of the graph, but for the chains'. Every order of the graph is kept.
    std::span<const graph_edge> before(std::size_t node) const noexcept;
    // Whether the node comes after another one only because of a chain: it may work before it waits.
    bool may_work_first(std::size_t node) const noexcept;

private:
    const command_graph& graph_;
    std::vector<std::vector<graph_edge>> changed_;  // by node; empty where nothing is chained
    std::vector<bool> is_changed_, works_first_;
};

}  // namespace sluice::cuda
