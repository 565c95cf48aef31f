// SPDX-License-Identifier: Apache-2.0
// ticket: the only notion of time in Sluice. Each stream counts its commands; a ticket is a command's number on its
// stream, from 1. A command is complete when its stream has passed its ticket.
#pragma once

#include <cstdint>

namespace sluice {

class command_queue;

using ticket = std::uint64_t;

// The point after command `upto` of `queue`. The queue is null when there was no command.
struct stream_point {
    command_queue* queue = nullptr;  // null: no command
    ticket upto = 0;                 // of the last command before the point
};

}  // namespace sluice
