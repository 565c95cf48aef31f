// What the simulator found wrong, and in which run: the seed brings it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sluice/runtime/ticket.hpp"

namespace sluice::sim {

enum class fault : unsigned char {
    race,                // two accesses to the same memory, one of which writes, in no order
    uninitialized_read,  // a command reads memory that nothing has written since it was allocated
    early_read,          // the host reads what a command has yet to write: a pending value opened too soon
    use_after_free,      // a command names or touches memory that was given back
    undeclared_access,   // a command touches memory that it does not name, or writes what it names as read
    lost_wake_up,        // all is done, and somebody still waits
    deadlock,            // a stream or the host waits for what can never run
    different_result,    // the pipeline's result depends on the schedule
    exception,           // the pipeline threw
};
std::string_view to_string(fault what) noexcept;
std::ostream& operator<<(std::ostream& to, fault what);

// A command, or the host.
struct actor {
    std::string name = {};       // "sgemm_naive"; "the host"
    std::string operation = {};  // the user's name for the operation; may be empty
    std::string device = {};     // "sim:0"; empty for the host
    std::size_t stream = 0;      // index among the device's streams
    sluice::ticket ticket = 0;   // counted from the schedule's begin; 0 for the host
    std::string where = {};      // "file:line"; may be empty
};
// "sgemm_naive of 'layer 1' (sim:0, stream 1, ticket 3, mlp.cpp:31)"
std::string to_string(const actor& who);

struct finding {
    fault what = fault::race;
    std::string message;     // one sentence, with all that follows but the seed
    actor first = {};        // who came first in this run; without a name where there is none
    actor second = {};       // who came into conflict with it
    std::string storage;     // "storage 3 (512 bytes of sim:0)"; may be empty
    std::uint64_t seed = 0;  // explore(..., {.schedules = 1, .seed = seed}) runs it again
};
// "race: ... (seed 17)"
std::string to_string(const finding& found);
std::ostream& operator<<(std::ostream& to, const finding& found);

}  // namespace sluice::sim
