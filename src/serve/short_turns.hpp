// SPDX-License-Identifier: Apache-2.0
// How soon a thread that takes requests gets a processor on which others compute.
#pragma once

namespace sluice::serve {

// The calling thread, and those that it makes from now on, ask the system for the shortest turns (0.1 ms): they get as
// much of a processor as before, but sooner when they have work, since a thread with a short turn comes before those
// with longer ones. It needs no privilege. Without effect before Linux 6.12, and where another scheduling policy than
// the usual one was set for the thread.
void take_short_turns() noexcept;

}  // namespace sluice::serve
