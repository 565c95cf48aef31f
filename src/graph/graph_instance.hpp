// SPDX-License-Identifier: Apache-2.0
// One replica of a compiled graph: a program, the memory it works in, and what is bound to its slots now.
//
// Thread safety: none; protected by the compiled graph's mutex.
#pragma once

#include <memory>
#include <vector>

#include "graph/address_sites.hpp"
#include "graph/graph_recorder.hpp"
#include "sluice/graph/compiled_graph.hpp"

namespace sluice::detail {

class graph_instance {
public:
    // Memory that is rebound at each launch: an input, or the memory of an output.
    struct binding {
        void* address = nullptr;
        storage_ref held;                 // reused when no other reference is left; null for inputs
        storage* used = nullptr;          // by the current launch
        std::vector<address_site> sites;  // when the recording is understood
    };
    // Whether the recording can be launched with other memory by setting addresses.
    enum class state : unsigned char {
        unknown,     // not compared with a learning recording yet
        understood,  // all addresses are known
        odd,         // differs in more than addresses: recorded again for each launch
    };

    std::unique_ptr<graph_program> program;
    std::vector<binding> bindings;  // by slot
    storage_ref arena;
    recording_layout layout;  // with the arena's addresses; slots are filled in for each recording
    std::vector<graph_recorder::external_memory> outside;
    std::vector<graph_recorder::place> host_blocks;
    std::vector<storage*> memory;              // by index in the graph
    std::vector<recorded_memory> as_recorded;  // likewise
    std::vector<storage_ref> places;           // those of it that are planned, kept alive
    std::vector<memory_access> accesses;       // of one launch
    std::size_t version = 0;
    state is = state::unknown;
    stream_point last;  // of the latest launch

    // Sets the slot's address at all its sites. The latest recording must be understood.
    void bind(std::size_t slot, storage* to);
};

}  // namespace sluice::detail
