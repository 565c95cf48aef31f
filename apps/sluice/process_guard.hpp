// SPDX-License-Identifier: Apache-2.0
// The process around a command of the tool: its standard descriptors, its signals, and the temporary files that it must
// remove, whatever ends it.
//
// Thread safety: guard_process() and signal_guard on one thread, one guard at a time; requested() and check() on any.
#pragma once

#include <signal.h>

namespace sluice::app {

// Call it before anything else. From then on
//   - descriptors 0 to 2 are open, so that no file gets one of these numbers and receives what a thread writes to
//     standard error;
//   - temporary files (io/process_files.hpp) are removed on every way out except SIGKILL: exit, and each signal that
//     ends a process;
//   - SIGHUP, SIGINT and SIGTERM end the process at once with the status `interrupted`, unless a signal_guard exists;
//   - reading a mapped file that another process has shortened ends the process with the status `bad_input` and a
//     sentence that names the file;
//   - writing to a closed pipe and writing a file larger than allowed are errors of the call, not signals.
// Signals that are ignored (nohup, background jobs) stay ignored, and signals that a library handles stay with it,
// except SIGBUS. Call it again after the start of a library that takes signals for itself.
void guard_process() noexcept;

// The signals that guard_process() ignores and that were not ignored before: a program that the tool starts gets their
// default action.
sigset_t ignored_by_guard() noexcept;

// During its lifetime the first SIGHUP, SIGINT or SIGTERM is a request; the run ends between two batches. The second
// ends the process at once. Its destruction ends the run: from then on these signals have their default action.
class signal_guard {
public:
    signal_guard() noexcept;
    signal_guard(const signal_guard&) = delete;  // there is one process
    signal_guard& operator=(const signal_guard&) = delete;
    ~signal_guard();

    // Whether a signal has requested the end.
    bool requested() const noexcept;
    // Throws interruption when a signal has requested the end.
    void check() const;

    // With `yes`, the request also removes the temporary files at once: for when a batch may take longer than the time
    // that is left. Removes them now when the request has come before.
    void remove_files_on_request(bool yes) noexcept;
};

}  // namespace sluice::app
