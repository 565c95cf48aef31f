// SPDX-License-Identifier: Apache-2.0
// command_graph: recorded commands and the edges between them. A backend turns it into a graph_program, which can run
// many times.
//
// The nodes are in submission order, so every edge leads from an earlier node to a later one. Running the nodes one
// after the other is correct, and so is any other order that the edges allow.
//
// A value: copies are independent. The addresses in it are valid only while the memory is kept alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/host_command.hpp"

namespace sluice {

// Why one node comes after another.
enum class edge_reason : unsigned char {
    read_after_write,
    write_after_read,
    write_after_write,
    stream_order,  // one of the two commands shares no data with others: see graph_recorder::keep_order
};

// An edge to a node, which has it in graph_node::after.
struct graph_edge {
    static constexpr std::uint32_t no_memory = ~std::uint32_t{0};  // of an edge that no memory causes

    std::uint32_t from = 0;    // a node
    std::uint32_t memory = 0;  // the memory that causes the edge: an index into command_graph::memory, or no_memory
    edge_reason reason = edge_reason::read_after_write;  // why the nodes are ordered
    // The later node may start before the earlier one has ended (see launch_command::early_start).
    bool is_programmatic = false;
};

// A block of memory that nodes use. For display.
struct graph_memory {
    std::string_view name;      // what it was allocated for: "upload", "gemm"
    std::size_t bytes = 0;      // of the block
    bool is_temporary = false;  // the graph's own
};

class command_graph;

// A part of a graph that runs if, or while, a number in device memory is not 0.
struct conditional_command {
    // Whether the body runs at most once, or as long as the number is not 0.
    enum class kind : unsigned char { once, repeatedly };
    kind what = kind::once;                          // once, or again and again
    const int* condition = nullptr;                  // read before each run of the body
    std::shared_ptr<const command_graph> body = {};  // the commands that run
    // Not 0 when kernels of the body set the condition themselves: the placeholder in their closures for the
    // condition's handle. The body then runs at least once. 0: `condition` is read.
    std::uint64_t mark = 0;
};

// One command of a graph.
struct graph_node {
    // The kinds of commands that a graph may have.
    using command =
        std::variant<copy_command, fill_command, launch_command, library_command, host_command, conditional_command>;

    command what;                              // the graph holds the closures: see command_graph::closure
    std::string_view name;                     // of the command, in errors and traces
    std::string operation;                     // the user's name for the operation that it belongs to
    source_location location;                  // the user's line that requested it
    std::vector<graph_edge> after;             // in the order of the nodes, one for each earlier node
    std::vector<std::uint32_t> reads;          // indices into command_graph::memory
    std::vector<std::uint32_t> writes;         // indices into command_graph::memory
    std::size_t closure_offset = 0;            // in the graph's closures, in bytes; of launches and library calls
    std::vector<std::uint32_t> launched = {};  // likewise: the memory of the graphs that the kernel may launch
    std::vector<std::shared_ptr<const void>> launched_owners = {};  // keep those graphs alive
    std::shared_ptr<const loaded_function> function = {};           // keeps that of a launch alive
};

class command_graph {
public:
    std::vector<graph_node> nodes;     // in the order of submission
    std::vector<graph_memory> memory;  // that the nodes use; they name it by its index
    // Whether kernels may launch this graph.
    bool is_for_kernels = false;
    // Objects that must stay alive while the graph may run.
    std::vector<std::shared_ptr<const void>> owners;

    // The bytes of a launch's or library call's closure. Costs O(1).
    std::span<std::byte> closure(const graph_node& of) noexcept;
    std::span<const std::byte> closure(const graph_node& of) const noexcept;
    // Copies a closure into the graph; returns its offset. Costs O(bytes), amortised.
    std::size_t add_closure(const void* closure, std::size_t bytes);

    // A node as a command: its closure points to the bytes in this graph. Costs O(1).
    launch_command launch(const graph_node& of) const noexcept;
    library_command library_call(const graph_node& of) const noexcept;  // the same for a library call; costs O(1)

    // Whether a node of the graph itself writes memory[index]. Costs O(writes of all nodes).
    bool is_written(std::uint32_t index) const noexcept;

    // Whether the graph, or the body of a conditional node, contains such commands, which may fail when they run. Costs
    // O(nodes), with those of the bodies.
    bool has_host_calls() const noexcept;
    bool has_library_calls() const noexcept;     // the same for library calls; costs O(nodes)
    bool has_fallible_kernels() const noexcept;  // launch_command::may_fail; costs O(nodes)

private:
    std::vector<std::max_align_t> closures_;
    std::size_t closure_bytes_ = 0;
};

}  // namespace sluice
