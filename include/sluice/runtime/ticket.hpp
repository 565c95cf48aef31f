// Tickets: the one notion of time. Each stream counts its commands; a ticket is a command's number on its
// stream, from 1. A command is complete when its stream has passed its ticket.
#pragma once

#include <cstdint>

namespace sluice {

class command_queue;

using ticket = std::uint64_t;

// A moment: "after command `upto` of `where`". Null when nothing has happened yet.
struct stream_point {
    command_queue* where = nullptr;
    ticket upto = 0;
};

}  // namespace sluice
