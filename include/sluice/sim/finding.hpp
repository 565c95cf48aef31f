// SPDX-License-Identifier: Apache-2.0
// What the simulator found wrong, with the seed that reproduces the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sluice/runtime/ticket.hpp"

namespace sluice::sim {

// What the simulator looks for.
enum class fault : unsigned char {
    race,                // two accesses to the same memory, at least one a write, without an order between them
    uninitialized_read,  // a command reads memory that nothing has written since it was allocated
    early_read,          // the host reads what a command has not written yet: a pending value opened too soon
    use_after_free,      // a command names or touches memory that was freed
    undeclared_access,   // a command touches memory that it does not name, or writes what it names as read
    lost_wake_up,        // everything has run, and a waiter still waits
    deadlock,            // a stream or the host waits for something that can never run
    different_result,    // the pipeline's result depends on the schedule
    exception,           // the pipeline threw
};
std::string_view to_string(fault what) noexcept;
std::ostream& operator<<(std::ostream& to, fault what);  // writes to_string(what); costs O(1)

// A command, or the host.
struct actor {
    std::string name = {};       // "sgemm_naive"; "the host"
    std::string operation = {};  // the user's name for the operation; may be empty
    std::string device = {};     // "sim:0"; empty for the host
    std::size_t stream = 0;      // index among the device's streams
    sluice::ticket ticket = 0;   // counted from the start of the schedule; 0 for the host
    std::string location = {};   // "file:line"; may be empty
};
// "sgemm_naive of 'layer 1' (sim:0, stream 1, ticket 3, mlp.cpp:31)". Costs O(bytes of the text).
std::string to_string(const actor& who);

// One fault, as the simulator has found it.
struct finding {
    fault what = fault::race;  // the kind
    std::string message;       // one sentence with everything below except the seed
    actor first = {};          // the earlier access of this run; its name is empty when there is none
    actor second = {};         // the access that conflicts with it
    std::string storage;       // "storage 3 (512 bytes of sim:0)"; may be empty
    std::uint64_t seed = 0;    // explore(..., {.schedules = 1, .seed = seed}) repeats the run
};
// "race: ... (seed 17)". Costs O(bytes of the text).
std::string to_string(const finding& found);
std::ostream& operator<<(std::ostream& to, const finding& found);

}  // namespace sluice::sim
