// SPDX-License-Identifier: Apache-2.0
// The order in which small fills and copies at the beginning of a CUDA graph run.
//
// A node that waits for two branches starts later than a node that waits for one, and each further node in a row takes
// time of its own. Pipelines often begin with such branches: an upload and two cleared tensors, each for
// another kernel. Small fills and copies that nothing precedes are therefore put one after the other where one kernel,
// or the kernels after it, need them all, and one kernel makes all the fills:
//
//     copy -------.                       copy -> both fills -> kernel -> kernel
//     fill ----> kernel -> kernel   =>
//     fill ----------------^
//
// They still run at the same time: each starts early, works, and only then waits for the one before it. Four batches
// of a small network took 1.33 of the time of a graph by hand without chains, and 1.06 with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::cuda {

class root_chains {
public:
    // What a node is: a small copy or fill by our kernel, or something else. Nodes with predecessors stay as they are.
    enum class kind : unsigned char { other, copy, fill };
    root_chains(const command_graph& of, const std::vector<kind>& kinds);

    // The edges to node i: those of the graph, but for the chains'. Every order of the graph is kept.
    std::span<const graph_edge> before(std::size_t node) const noexcept;
    // Whether the node comes after another one only because of a chain: it may work before it waits.
    bool may_work_first(std::size_t node) const noexcept;
    // The fills that this node makes with one kernel, itself last; empty: only itself, if it is one.
    std::span<const std::uint32_t> makes(std::size_t node) const noexcept;
    // Whether another node makes this fill: the CUDA graph has no node for it, and no edge of before() names it.
    bool is_made_elsewhere(std::size_t node) const noexcept;

private:
    const command_graph& graph_;
    std::vector<std::vector<graph_edge>> changed_;  // by node; empty where nothing is chained
    std::vector<bool> is_changed_, works_first_, is_made_elsewhere_;
    std::vector<std::vector<std::uint32_t>> makes_;
};

}  // namespace sluice::cuda
