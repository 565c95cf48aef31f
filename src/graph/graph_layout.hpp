// What compiling an operation tells of it: what a recording is compared with, and where its memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/graph/compiled_graph.hpp"

namespace sluice::detail {

constexpr std::size_t no_slot = ~std::size_t{0};

// Where a recording has an output.
struct compiled_graph::output_place {
    enum class kind : unsigned char { none, device, host, outside };
    kind what = kind::none;
    std::size_t number = 0;  // of the recorder's places or host blocks

    friend bool operator==(const output_place&, const output_place&) = default;
};

// Memory that is another at each launch.
struct compiled_graph::slot {
    bool is_host = false;
    std::size_t number = 0;    // of the recorder's places or host blocks
    std::uint32_t memory = 0;  // in the graph's list
    std::size_t bytes = 0;
    bool is_output = false;
    bool is_written = false;
    const void* learned_at = nullptr;
};

struct compiled_graph::recorded {
    command_graph graph;
    std::vector<output_place> outputs;
    std::vector<std::size_t> input_numbers;  // of the recorder's places or host blocks
    bool records_each = false;
};

// As learned: what a recording of an instance starts from.
struct compiled_graph::layout {
    command_graph graph;
    std::vector<output_place> outputs;
    struct place {
        std::size_t bytes;
        std::size_t offset;  // in the arena
        std::size_t slot;    // no_slot: in the arena
    };
    std::vector<place> places;
    std::size_t arena_bytes = 0;
};

}  // namespace sluice::detail
