// SPDX-License-Identifier: Apache-2.0
// A launch of a compiled graph on a simulated stream. To the rest of the simulator it is one command, which reads and
// writes what it names. Inside, its nodes run one at a time in any order that the edges allow.
//
// The checks are independent of how the graph was built: they trust neither its edges nor its planned memory offsets.
// All edges are known before anything runs, so no clocks are needed: two nodes that access the same bytes, at least one
// of them writing, without a path of edges between them are a race, in every schedule. And each node must stay within
// what the launch names.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/graph_replay.hpp"
#include "sim/checker.hpp"

namespace sluice::sim::detail {

class sim_machine;

// One piece of memory that nodes name, as bound in this launch.
struct graph_range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool is_temporary = false;  // in the graph's own block: data that an earlier launch left there is not valid
};

struct graph_walk {
    graph_walk(const graph_command& command, std::shared_ptr<const sluice::detail::replay_list> what);

    std::shared_ptr<const sluice::detail::replay_list> list;
    std::shared_ptr<const void> owner;
    std::vector<graph_range> memory;  // by index, as command_graph::memory
};

// Checks a launch when it is submitted. `accesses` is what the launch names; `launch` is its name in findings.
void check(checker& with, const graph_walk& launched, command_ref who, const actor& launch,
           std::span<const named_block> accesses, std::span<block* const> all);

// Runs the whole graph. Throws the exception of the first node that failed.
void perform(sim_machine& with, const graph_walk& launched, const native_stream& on);

}  // namespace sluice::sim::detail
