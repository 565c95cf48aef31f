// A saboteur between the runtime and the simulated device: it plants faults, to prove that the simulator finds them.
// The runtime is told that all went as it should; the simulator's checks know nothing of it either.
//
// Streams are given by their index on the first device, tickets as the schedule counts them, from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/runtime/ticket.hpp"

namespace sluice {
class command_graph;
}

namespace sluice::sim::detail {

struct stream_wait {
    std::size_t waiter;
    std::size_t awaited;
    ticket upto;
};

// Every member does nothing by default.
class saboteur {
public:
    saboteur() = default;
    saboteur(const saboteur&) = delete;  // simulators point to it
    saboteur& operator=(const saboteur&) = delete;
    virtual ~saboteur() = default;

    virtual void schedule_begins() {}
    // The wait that is really made instead of this one; none, when null.
    virtual std::optional<stream_wait> wait(const stream_wait& asked) { return asked; }
    // What the host is told instead of `passed`.
    virtual ticket passed(std::size_t /*stream*/, ticket passed, ticket /*issued*/) noexcept { return passed; }
    // Whether the host, when it waits for this, really does.
    virtual bool awaits(std::size_t /*stream*/, ticket /*upto*/) { return true; }
    // Whether who waits for a ticket up to this is told.
    virtual bool tells(std::size_t /*stream*/, ticket /*upto*/) noexcept { return true; }
    // Whether this command is refused with an exception; and whether the waits made for it are forgotten then.
    virtual bool refuses(std::size_t /*stream*/, std::string_view /*name*/) { return false; }
    virtual bool forgets_waits() { return false; }
    // Whether it shows that a device has broken down.
    virtual bool shows_breakdowns() noexcept { return true; }
    // Whether memory that a pool still keeps is handed out a second time, without its history.
    virtual bool hands_out_twice(std::size_t /*bytes*/) { return false; }
    // What a graph is instantiated with is changed to this.
    virtual void spoils(command_graph& /*graph*/) {}
};

}  // namespace sluice::sim::detail
