// SPDX-License-Identifier: Apache-2.0
// How much less urgent the threads that compute are than those that take requests, on processors that both want.
#pragma once

namespace sluice::serve {

// Of this process: from now on each thread that computes a model's batches begins with this many steps of niceness more
// than the thread that has made it (0 to 19; at first 0). Any thread may call it. Threads that run already stay as they
// are. A device's workers get it where become_less_urgent() was called on the thread that makes the device. Throws
// error (errc::invalid_argument) for another number. Costs O(1).
void set_compute_nice(int steps);

// What set_compute_nice() said last. Costs O(1).
int compute_nice() noexcept;

// The calling thread, and those that it makes from now on, become less urgent by compute_nice() steps. It cannot become
// as urgent as before again. Without effect where the system has no niceness of threads. Costs at most three calls of
// the system.
void become_less_urgent() noexcept;

}  // namespace sluice::serve
