// SPDX-License-Identifier: Apache-2.0
// graph_program: a backend's executable form of a command_graph, which one command runs. Users see executable_graph.
//
// Thread safety: none; its owner ensures that one thread at a time uses it. A command that runs it takes what it needs
// during its submission, so a change affects only commands submitted later.
//
// Errors: a member that is not noexcept throws device_error when the driver fails.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "sluice/runtime/command_graph.hpp"

namespace sluice {

// The work that a change of a program needed.
enum class graph_change : unsigned char {
    none,          // nothing differed
    parameters,    // parameters of nodes were set
    whole_graph,   // the driver updated the graph as a whole
    instantiated,  // the driver refused the update, and the graph was instantiated again
};

class graph_program {
public:
    graph_program() = default;
    graph_program(const graph_program&) = delete;  // owned through a pointer only
    graph_program& operator=(const graph_program&) = delete;
    virtual ~graph_program() = default;

    // The commands that it runs after the next flush. Costs O(1).
    virtual const command_graph& commands() const noexcept = 0;

    // Replaces an address in a node's command. `at` is a byte offset in a closure; for a copy or fill it is one of
    // these constants.
    enum : std::size_t { copy_destination = 0, copy_source = 1, fill_destination = 0 };
    // In the command of that node; takes effect at the next flush. Costs O(1); on a CPU also a copy of all commands
    // where a launch still runs them.
    virtual void set_address(std::size_t node, std::size_t at, void* address) = 0;
    // Replaces all commands. Costs a comparison of all commands with the ones before.
    virtual void update(command_graph to) = 0;
    // Applies the changes since the last flush to the program; returns the work that this needed. To be called before
    // each submission. When it throws, the program must not be submitted, and the next flush tries again. Costs O(1) on
    // a CPU; on a GPU a call of the driver for each changed command, or a new graph.
    virtual graph_change flush() = 0;
    // A disabled node does nothing; the nodes after it still run. Copies, fills and kernels can be disabled. Costs what
    // set_address costs on a CPU; on a GPU a flush, and at most a call of the driver.
    virtual void set_enabled(std::size_t node, bool enabled) = 0;
    virtual bool is_enabled(std::size_t node) const noexcept = 0;  // whether the node does something; costs O(1)
    // Prepares the device for the next run, which would otherwise do it: on this stream, without waiting, or with null
    // on a stream of the program's choice, which is waited for. Where nothing is to be prepared it does nothing. Costs
    // a flush, and at most one upload.
    virtual void upload(const native_stream* /*on*/) {}
    // Why the latest flush that returned `instantiated` had to, with the name of the node; empty before the first.
    // Costs O(1).
    virtual const std::string& refusal() const noexcept = 0;

    // The handle with which kernels launch it; null when it was not created for that. Costs O(1).
    virtual const void* launch_handle() const noexcept = 0;

    // Whether a run may fail without a fault of the device, so that the command needs an outcome. Costs O(1).
    virtual bool may_fail() const noexcept = 0;
};

// The command of the waist that runs a graph_program.
struct graph_command {
    graph_program* program = nullptr;  // what runs
    // The memory that the nodes name, by index: for a recorder that copies the nodes into another graph.
    std::span<storage* const> memory = {};
    // Kept until the command is complete: the program, and everything else that must live as long.
    std::shared_ptr<const void> owner = {};
};

}  // namespace sluice
