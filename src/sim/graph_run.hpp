// A launch of a compiled graph on a simulated stream. For everybody else it is one command, which reads and writes what
// it names; inside, its nodes run one after the other in any order that the edges allow.
//
// What is checked knows nothing of how the graph was made: neither its edges nor the places that its memory was given
// are trusted. All edges are there from the beginning, so no clocks are needed: before anything has run, two nodes that
// touch the same bytes, one of them to write, with no way along the edges from one to the other are a race, in every
// schedule. And each node must stay within what the launch names.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/graph_replay.hpp"
#include "sim/checker.hpp"

namespace sluice::sim::detail {

class engine;

// One piece of memory that nodes name, as this launch has it.
struct graph_range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool is_temporary = false;  // a place in the graph's own block: what an earlier launch has left there is no value
};

struct graph_run {
    graph_run(const graph_command& command, std::shared_ptr<const sluice::detail::replay_list> what);

    std::shared_ptr<const sluice::detail::replay_list> list;
    std::shared_ptr<const void> owner;
    std::vector<graph_range> memory;  // by index, as command_graph::memory
};

// As it is submitted. `accesses` is what the launch names; `launch`, how findings call it.
void check(checker& with, const graph_run& launched, command_ref who, const actor& launch,
           std::span<const named_block> accesses, std::span<block* const> all);

// As it runs, all of it. Throws what the first node that failed has thrown.
void perform(engine& with, const graph_run& launched, const native_stream& on);

}  // namespace sluice::sim::detail
