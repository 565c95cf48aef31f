// graph_program: what a backend has made of a command_graph, to be run by one command. Users see executable_graph.
//
// Thread safety: none; its owner sees to it that one thread at a time uses it. Commands that run it take what they
// need when they are submitted: changing the program concerns those after.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/runtime/command_graph.hpp"

namespace sluice {

// What it took to make a program run something else.
enum class graph_change : unsigned char {
    none,          // nothing differed
    parameters,    // parameters of nodes were set
    whole_graph,   // the graph was updated as a whole, by the driver
    instantiated,  // it was refused as an update: the graph was instantiated anew
};

class graph_program {
public:
    graph_program() = default;
    graph_program(const graph_program&) = delete;  // owned through a pointer only
    graph_program& operator=(const graph_program&) = delete;
    virtual ~graph_program() = default;

    // What it runs from the next flush on.
    virtual const command_graph& commands() const noexcept = 0;

    // The address that a node's command has there is another: at this byte of a closure, or of a copy or fill, whose
    // members count as follows.
    enum : std::size_t { copy_destination = 0, copy_source = 1, fill_destination = 0 };
    virtual void set_address(std::size_t node, std::size_t at, void* address) = 0;
    // Other commands instead.
    virtual void update(command_graph to) = 0;
    // Makes the program run what was set since the last flush, and tells what that took. Before each submission; when
    // it throws, the program must not be submitted, and the next flush tries again.
    virtual graph_change flush() = 0;
    // Nothing that was submitted of it runs any more, its owner knows: what only that needed can go.
    virtual void nothing_runs() noexcept {}
    // A node that is disabled does nothing; what comes after it still does. Copies, fills and kernels can be.
    virtual void set_enabled(std::size_t node, bool enabled) = 0;

    // What kernels launch it by; null when it was not made for that.
    virtual const void* launch_handle() const noexcept = 0;

    // Whether running it may fail other than by a fault of the device, so that the command needs an outcome.
    virtual bool may_fail() const noexcept = 0;
};

// As the waist's other commands.
struct graph_command {
    graph_program* program = nullptr;
    // The memory that the nodes name, by index: for a recorder that puts them into another graph.
    std::span<storage* const> memory = {};
    // Kept until the command is over: the program, and what else must be there as long.
    std::shared_ptr<const void> owner = {};
};

}  // namespace sluice
