// SPDX-License-Identifier: Apache-2.0
// Result of the learning pass: the reference recording and the planned memory offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph_recorder.hpp"
#include "sluice/graph/compiled_graph.hpp"

namespace sluice::detail {

constexpr std::size_t no_slot = ~std::size_t{0};

// Which memory of a recording holds an output.
struct compiled_graph::output_place {
    enum class kind : unsigned char { none, device, host, outside };
    kind what = kind::none;
    std::size_t number = 0;  // of the recorder's places or host blocks

    friend bool operator==(const output_place&, const output_place&) = default;
};

// Memory rebound at each launch (inputs, outputs).
struct compiled_graph::slot {
    bool is_host = false;
    std::size_t number = 0;    // of the recorder's places or host blocks
    std::uint32_t memory = 0;  // in the graph's list
    std::size_t bytes = 0;
    bool is_output = false;
    bool is_written = false;
};

struct compiled_graph::recorded {
    command_graph graph;
    std::vector<output_place> outputs;
    std::vector<std::size_t> input_numbers;  // of the recorder's places or host blocks
    bool records_each_launch = false;
};

// A learning recording with its recorder, so that other recordings can be compared with it.
struct compiled_graph::lesson {
    lesson(device& on, std::uint64_t graph_id) : recorder(on, nullptr, graph_id) {}

    graph_recorder recorder;
    recorded made;
};

// The reference recording and the plan: each instance is recorded against them.
struct compiled_graph::layout {
    command_graph graph;
    std::vector<output_place> outputs;
    struct place {
        std::size_t bytes;
        std::size_t offset;  // in the arena
        std::size_t slot;    // no_slot: it is in the arena
    };
    std::vector<place> places;
    std::optional<std::vector<std::size_t>>
        host_bytes;  // of the host blocks; nullopt when each launch may use different ones
    std::size_t arena_bytes = 0;
};

}  // namespace sluice::detail
