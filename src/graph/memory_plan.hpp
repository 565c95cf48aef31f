// SPDX-License-Identifier: Apache-2.0
// Plans one block for a graph's temporary memory: places that are never in use at the same time share bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

struct planned_place {
    std::uint32_t memory = 0;  // index in the graph's list
    std::size_t bytes = 0;
};

struct memory_plan {
    std::vector<std::size_t> offsets;  // by place; multiples of 256
    std::size_t bytes = 0;
};

// Two places share bytes only if the graph's edges put all uses of one before all uses of the other. Sharing needs no
// edge of its own, so branches that could run concurrently still can. Each place, in the given order, gets the lowest
// offset that is free for it.
memory_plan plan_memory(const command_graph& graph, std::span<const planned_place> places);

}  // namespace sluice::detail
