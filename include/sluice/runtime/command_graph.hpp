// command_graph: commands with the edges between them, as a recorder has written them down. What a backend makes
// something of that it can run again and again (graph_program).
//
// The nodes are in the order in which they were submitted, so every edge leads from an earlier one to a later one:
// running them one after the other is right, and so is any other order that the edges allow.
//
// A value: copies are independent. Addresses in it are only good while somebody keeps the memory.
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

namespace sluice {

// Why one node comes after another.
enum class edge_reason : unsigned char {
    read_after_write,
    write_after_read,
    write_after_write,
};

struct graph_edge {
    std::uint32_t from = 0;    // a node
    std::uint32_t memory = 0;  // over which memory: an index into command_graph::memory
    edge_reason reason = edge_reason::read_after_write;
    // The later one may start before the earlier one has ended (see launch_command::early_start).
    bool is_programmatic = false;
};

// A block of memory that nodes use, for people who read the graph.
struct graph_memory {
    std::string_view name;  // what it was allocated for: "upload", "gemm"
    std::size_t bytes = 0;
    bool is_temporary = false;  // the graph's own
};

class command_graph;

// Part of a graph that runs if, or as long as, a number in device memory is not 0.
struct conditional_command {
    enum class kind : unsigned char { once, repeatedly };
    kind what = kind::once;
    const int* condition = nullptr;  // looked at before each run of the body
    std::shared_ptr<const command_graph> body = {};
    // When kernels of the body set the condition themselves: the word in their closures that stands for its handle; the
    // body then runs at least once. 0: the number is looked at.
    std::uint64_t mark = 0;
};

struct graph_node {
    using command =
        std::variant<copy_command, fill_command, launch_command, library_command, host_command, conditional_command>;

    command what;  // closures are the graph's: see command_graph::closure
    std::string_view name;
    std::string operation;  // the user's name for what it belongs to
    source_location where;
    std::vector<graph_edge> after;  // in the order of the nodes, one for each earlier node
    std::vector<std::uint32_t> reads;
    std::vector<std::uint32_t> writes;  // indices into command_graph::memory
    std::size_t closure_offset = 0;
    std::vector<std::uint32_t> launched = {};  // memory of the graphs that the kernel may launch, likewise
    std::vector<std::shared_ptr<const void>> launched_owners = {};  // what keeps those graphs
};

class command_graph {
public:
    std::vector<graph_node> nodes;
    std::vector<graph_memory> memory;
    // Whether kernels may launch it.
    bool is_for_kernels = false;

    // The bytes of a launch's or library call's closure.
    std::span<std::byte> closure(const graph_node& of) noexcept;
    std::span<const std::byte> closure(const graph_node& of) const noexcept;
    // Copies a closure in; returns where it begins.
    std::size_t add_closure(const void* closure, std::size_t bytes);

    // As commands: their closure points to the bytes kept here.
    launch_command launch(const graph_node& of) const noexcept;
    library_command library_call(const graph_node& of) const noexcept;

    // Whether a command of it, or of a part of it, may fail where it runs.
    bool has_host_calls() const noexcept;
    bool has_library_calls() const noexcept;

private:
    std::vector<std::max_align_t> closures_;
    std::size_t closure_bytes_ = 0;
};

}  // namespace sluice
