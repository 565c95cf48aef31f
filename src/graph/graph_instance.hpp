// One replica of a compiled graph: a program, the memory it works in, and what is bound to its slots now.
//
// Thread safety: none; the compiled graph's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/graph_recorder.hpp"
#include "sluice/graph/compiled_graph.hpp"

namespace sluice::detail {

// Where an address stands in a program.
struct address_site {
    std::size_t node;
    std::size_t at;      // as graph_program::set_address
    std::size_t offset;  // what is to be added to the memory's address

    friend bool operator==(const address_site&, const address_site&) = default;
};

// Where addresses between `begin` and `begin + bytes` stand in the commands that name the memory. With another
// recording of the same commands, where the memory is elsewhere: only those that are there, too.
std::vector<address_site> find_sites(const command_graph& graph, std::uint32_t memory, const void* begin,
                                     std::size_t bytes, const command_graph* other = nullptr,
                                     const void* other_begin = nullptr);

class graph_instance {
public:
    // What changes from launch to launch: an input, or memory that an output is made in.
    struct binding {
        void* address = nullptr;
        storage_ref held;         // reused when nobody else has it; null for inputs
        storage* used = nullptr;  // of this launch
        std::vector<address_site> sites;
        bool are_sites_known = true;
    };

    std::unique_ptr<graph_program> program;
    std::vector<binding> bindings;  // by slot
    storage_ref arena;
    recording_layout layout;  // with the arena's addresses; slots are filled in for each recording
    std::vector<graph_recorder::outside_memory> outside;
    std::vector<graph_recorder::place> host_blocks;
    std::vector<std::shared_ptr<const void>> owners;
    std::vector<storage*> memory;         // by index in the graph
    std::vector<storage_ref> places;      // what of it is planned, kept
    std::vector<memory_access> accesses;  // of a launch
    std::size_t version = 0;
    stream_point last;  // of the latest launch

    // Sets the address wherever it stands; false when it is not known where.
    bool bind(std::size_t slot, storage* to);
};

}  // namespace sluice::detail
