// SPDX-License-Identifier: Apache-2.0
// graph_difference: compares two recordings of one operation, for updates of programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

struct graph_difference {
    bool has_same_topology = false;    // the same number of nodes, of the same kinds, with the same edges
    std::vector<std::size_t> changed;  // if so: the nodes whose commands differ
    std::string why;                   // if not: what differs, with the name of the first such node
    // If so, and the cluster of a launch differs or whether it is cooperative: the first such node, inside conditions
    // and loops too. CUDA does not update that in a graph.
    std::string other_groups = {};

    bool is_same() const noexcept { return has_same_topology && changed.empty(); }
};

// The name of a node in a message: its operation's, and its command's: "'layer 1' (gemm)".
std::string label(const graph_node& node);

// Whether both launches run the same kernel, or the same function of a module.
bool runs_same_code(const launch_command& a, const launch_command& b) noexcept;

// Whether both launches have the same cluster, and are cooperative or not.
bool has_same_group(const launch_command& a, const launch_command& b) noexcept;

graph_difference compare(const command_graph& before, const command_graph& after);

// Does what graph_program::set_address requests, in the commands themselves.
void set_address_in(command_graph& graph, std::size_t node, std::size_t at, void* address) noexcept;

}  // namespace sluice::detail
