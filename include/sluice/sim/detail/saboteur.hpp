// SPDX-License-Identifier: Apache-2.0
// A saboteur between the runtime and the simulated device. It plants faults, to prove that the simulator finds them.
// The runtime sees no sign of them, and the simulator's checks know nothing of the saboteur either.
//
// Streams are given as their index on the first device. Tickets are counted from 1 within the schedule.
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
    // The wait that is carried out instead of this one; null for none.
    virtual std::optional<stream_wait> wait(const stream_wait& asked) { return asked; }
    // The value that the host reads instead of `passed`.
    virtual ticket passed(std::size_t /*stream*/, ticket passed, ticket /*issued*/) noexcept { return passed; }
    // Whether a wait of the host for this ticket really waits.
    virtual bool awaits(std::size_t /*stream*/, ticket /*upto*/) { return true; }
    // Whether waiters for tickets up to this one are woken.
    virtual bool tells(std::size_t /*stream*/, ticket /*upto*/) noexcept { return true; }
    // Whether this command is refused with an exception, and whether the waits submitted for it are then dropped.
    virtual bool refuses(std::size_t /*stream*/, std::string_view /*name*/) { return false; }
    virtual bool drops_waits_of_refused() { return false; }
    // Whether a breakdown of a device becomes visible.
    virtual bool reports_breakdowns() noexcept { return true; }
    // Whether memory that a pool still holds is handed out a second time, without its history.
    virtual bool hands_out_twice(std::size_t /*bytes*/) { return false; }
    // Changes the commands with which a graph is instantiated.
    virtual void spoils(command_graph& /*graph*/) {}
};

}  // namespace sluice::sim::detail
