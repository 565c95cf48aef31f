// SPDX-License-Identifier: Apache-2.0
// What the interpreter's end waits for. Python ends a thread that asks for the GIL later in the middle of its call,
// which the frames of C++ do not bear.
#pragma once

#include "failures.hpp"

namespace sluice::python {

// Work on any thread that the interpreter's end waits for, from the beginning of this object until its end.
class work_in_flight {
public:
    work_in_flight();                                // throws RuntimeError when the interpreter ends
    work_in_flight(const work_in_flight&) = delete;  // counts itself
    work_in_flight& operator=(const work_in_flight&) = delete;
    ~work_in_flight();

private:
    const made_here birth_;  // a forked process begins with none
};

// Gives the GIL away in a destructor that may wait for a thread of the library, which may wait for the GIL. When the
// interpreter has waited for all of them, it is kept: this thread would not get it again.
class gil_given_away {
public:
    gil_given_away() noexcept;
    gil_given_away(const gil_given_away&) = delete;  // takes it again
    gil_given_away& operator=(const gil_given_away&) = delete;
    ~gil_given_away();

private:
    PyThreadState* state_ = nullptr;  // null: kept
};

// Before the interpreter ends: waits until all runs have ended, their callbacks and the calls of other threads have
// returned; new ones are refused. So no thread asks for the GIL afterwards.
void shut_down();

}  // namespace sluice::python
