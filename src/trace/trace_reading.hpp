// SPDX-License-Identifier: Apache-2.0
// trace_reading: a trace as its writers show it: sorted, with valid times, and with waits that lead from one shown
// command to another. trace.hpp says what is left out and what is moved.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/trace/trace.hpp"

namespace sluice::detail {

// A command that is shown, with the times to show. Points into the trace.
struct trace_span {
    const trace_event* event;
    double start_us;
    double end_us;

    double duration_us() const noexcept { return end_us - start_us; }
};

// The spans of one stream: [first, last) in trace_reading::spans.
struct trace_stream {
    std::size_t device;
    std::size_t stream;
    std::size_t first;
    std::size_t last;
    std::string name;  // "stream 3", where the trace has no other
};

// A wait: indices into trace_reading::spans.
struct trace_arrow {
    std::size_t from;
    std::size_t to;
};

struct trace_reading {
    std::vector<trace_span> spans;      // by device, stream, start, ticket; those of a stream do not overlap
    std::vector<trace_stream> streams;  // by device and stream; those with spans
    std::vector<trace_arrow> arrows;    // in the order of the waits
};

// The result points into the trace, which must outlive it.
trace_reading read_trace(const trace& of);

// The name of a stream, as trace_stream has it.
std::string stream_name(const trace& of, std::size_t device, std::size_t stream);

// The device's name; "device 3" for one that the trace does not name.
std::string device_name(const trace& of, std::size_t device);

}  // namespace sluice::detail
