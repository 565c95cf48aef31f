// What two recordings of one operation have in common, for programs that are updated.
#pragma once

#include <cstddef>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

struct graph_difference {
    bool has_same_topology = false;    // as many nodes, of the same kinds, with the same edges
    std::vector<std::size_t> changed;  // then: the nodes whose commands are others

    bool is_same() const noexcept { return has_same_topology && changed.empty(); }
};

graph_difference compare(const command_graph& before, const command_graph& after);

// graph_program::set_address, in the commands themselves.
void set_address_in(command_graph& graph, std::size_t node, std::size_t at, void* address) noexcept;

}  // namespace sluice::detail
