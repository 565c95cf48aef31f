// SPDX-License-Identifier: Apache-2.0
// trace_recorder: records a trace of the commands that a runtime's devices execute.
//
//     trace_recorder recorder;
//     runtime machine({.trace = &recorder});
//     ...
//     save_timeline(recorder.take(), "timeline.svg");
//
// A runtime that is given a recorder wraps its devices: it enqueues a mark with the device's time before and after each
// command, and notes which stream waited for which. A runtime without a recorder has no wrapper and no cost.
// docs/tracing.md lists the costs of recording.
//
// The recorder may be destroyed before the runtime: then nothing more is recorded. One recorder may serve several
// runtimes; what it has recorded stays when they are destroyed.
//
// Thread safety: all members may be called on any thread, but not in host calls.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/trace/trace.hpp"

namespace sluice {

namespace detail {
class trace_log;
}

// How much a recorder keeps.
struct trace_recorder_options {
    // About this many commands are kept (some 100 bytes each); commands beyond that are only counted as dropped.
    std::size_t most_events = 1'000'000;
};

class trace_recorder {
public:
    // Records nothing until a runtime is given it; see runtime_options::trace. Costs one allocation.
    explicit trace_recorder(const trace_recorder_options& options = {});
    trace_recorder(const trace_recorder&) = delete;  // runtime_options point to it
    trace_recorder& operator=(const trace_recorder&) = delete;
    ~trace_recorder();

    // Blocks until the commands submitted so far are complete, and moves them out: the next trace begins after them.
    // Commands that a faulted device did not finish are missing. Times count from the start of the trace's first
    // command. Each device has its own clock; the offset between two clocks is known to some ten microseconds. Costs
    // O(events + streams).
    trace take();

    // The number of commands that are missing, since the construction of the recorder: it was full, or their times
    // could not be read. Costs O(1).
    std::size_t dropped() const noexcept;

    // For runtimes.
    const std::shared_ptr<detail::trace_log>& log() const noexcept { return log_; }

private:
    std::shared_ptr<detail::trace_log> log_;
};

}  // namespace sluice
