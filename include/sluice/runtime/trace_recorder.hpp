// trace_recorder: makes a trace of what a runtime's devices do.
//
//     trace_recorder recorder;
//     runtime machine({.trace = &recorder});
//     ...
//     save_timeline(recorder.take(), "timeline.svg");
//
// It stands between the streams and the devices of the runtimes that it was given to: before and behind each command
// it puts a mark with the device's time, and it notes which stream waited for which. A runtime without a recorder has
// nothing of this in its way. What it costs is in docs/tracing.md.
//
// The recorder may go before the runtime does: then nothing more is recorded. It may serve several runtimes, and what
// was recorded stays when they are gone.
//
// Thread safety: all members may be called on any thread, but not in host calls.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/runtime/trace.hpp"

namespace sluice {

namespace detail {
class trace_log;
}

struct trace_recorder_options {
    // About so many commands are kept (some 100 bytes each); those that come when it is full are only counted.
    std::size_t most_events = 1'000'000;
};

class trace_recorder {
public:
    explicit trace_recorder(const trace_recorder_options& options = {});
    trace_recorder(const trace_recorder&) = delete;  // runtimes are given its address
    trace_recorder& operator=(const trace_recorder&) = delete;
    ~trace_recorder();

    // Waits for the commands that were submitted so far, and moves them out: the next trace begins behind them.
    // Commands that a faulted device did not finish are missing. Times count from the start of the trace's first
    // command. Each device has a clock of its own; how they lie to each other is known to some ten microseconds.
    trace take();

    // How many commands are missing, since the recorder was made: it was full, or their times could not be had.
    std::size_t dropped() const noexcept;

    // For runtimes.
    const std::shared_ptr<detail::trace_log>& log() const noexcept { return log_; }

private:
    std::shared_ptr<detail::trace_log> log_;
};

}  // namespace sluice
