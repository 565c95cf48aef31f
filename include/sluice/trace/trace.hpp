// SPDX-License-Identifier: Apache-2.0
// trace: which command ran when and on which stream, and which stream waited for which; and two writers that display
// it.
//
// A trace is plain data and refers to no device. trace_recorder records one.
//
// How the writers treat odd data: an event with a time that is not finite is skipped. A time before the trace's begin
// is shown at the begin, a time after 10^15 us at 10^15 us, and an end before its start at the start. A stream runs one
// command at a time, so a command that overlaps the next one is shown as ending where the next one starts. A wait is
// left out unless both commands that it names are shown. Bytes that are not UTF-8, and control characters that the
// format cannot represent, become U+FFFD.
//
// Thread safety: the functions only read the trace. They use no global state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Kinds of commands: copies, named by where they are from and go to; fills; kernels; calls of libraries and of the
// host; graphs, whose commands count as one.
enum class trace_kind : unsigned char {
    host_to_device,
    device_to_host,
    device_to_device,
    fill,
    kernel,
    library_call,
    host_call,
    graph,
    stage,  // of a request to a server
};

// "upload", "download", "device copy", "fill", "kernel", "library call", "host call", "graph", "stage"; for display.
// Costs O(1).
std::string_view to_string(trace_kind kind) noexcept;

// What else is known of a command: "batch", "17".
struct trace_detail {
    std::string name = {};  // of what is known: "batch"
    std::string text = {};  // what it is: "17"
};

// One command that ran.
struct trace_event {
    std::string name = {};                   // of the command: "sgemm_naive", "upload"
    std::string operation = {};              // the user's name for the operation; may be empty
    std::size_t device = 0;                  // index into trace::devices
    std::size_t stream = 0;                  // index among the device's streams
    std::uint64_t ticket = 0;                // of the command, on its stream
    trace_kind kind = trace_kind::kernel;    // of the command
    double start_us = 0;                     // the device's clock, from the trace's begin
    double end_us = 0;                       // the same
    std::size_t bytes = 0;                   // copied or filled; 0 when unknown
    std::string location = {};               // "file:line" that requested it; may be empty
    std::vector<trace_detail> details = {};  // what else is known of it
};

// A stream that waited for another one of its device.
struct trace_wait {
    std::size_t device = 0;         // of both streams
    std::size_t from_stream = 0;    // the awaited stream
    std::uint64_t from_ticket = 0;  // the awaited command
    std::size_t to_stream = 0;      // the stream that waited
    std::uint64_t to_ticket = 0;    // its first command after the wait
};

// A stream that has a name of its own.
struct trace_stream_name {
    std::size_t device = 0;  // index into trace::devices
    std::size_t stream = 0;  // index among the device's streams
    std::string name = {};   // in place of "stream 3"
};

struct trace {
    std::vector<std::string> devices = {};             // their names, "cuda:0 NVIDIA H200"
    std::vector<trace_event> events = {};              // in any order
    std::vector<trace_wait> waits = {};                // in any order
    std::vector<trace_stream_name> stream_names = {};  // of streams that have one
};

// Writes JSON for Perfetto and chrome://tracing: a process for each device, a thread for each stream, a slice for each
// command, an arrow for each wait. Times are in microseconds with three digits. Failures are left in the stream's
// state. Costs O(n log n) in the number of events and waits.
void write_chrome_trace(const trace& of, std::ostream& to);

// How write_timeline draws.
struct timeline_options {
    // Of the picture, clamped to 480 to 20,000. 0: as wide as half of the commands need for a short name, from 1,200 to
    // 4,800.
    int width_px = 0;
    std::string title = {};  // above the picture; may be empty
};

// Writes a picture (stand-alone SVG, light or dark as the viewer prefers): a row for each stream, a bar for each
// command, arrows for waits, all details as tooltips. Kernels, library calls and stages are solid bars in the colour of
// their name, library calls with a dashed outline; other commands are hollow bars in the colour of their kind. In a
// browser a small script in the picture zooms and moves it; the script is the same in each picture and holds no names.
// Next to each stream's name is the share of the shown time in which a command was running. The time axis begins at the
// trace's begin, or at the first command when that comes late. Neighbouring bars narrower than half a pixel are merged
// into bars of at most two pixels; the more idle time such a bar contains, the paler it is. So the size of the picture
// depends on its width and the number of streams, not on the number of events. Failures are left in the stream's state.
// Costs O(n log n) in the number of events and waits.
void write_timeline(const trace& of, std::ostream& to, const timeline_options& options = {});

// Write the same into a file, which is replaced as a whole or not at all. They throw file_error (errc::io_failed) when
// the file cannot be written; the old file is then unchanged. Costs what writing it costs, and what atomic_file::commit
// costs.
void save_chrome_trace(const trace& of, const std::filesystem::path& file);
// The same with write_timeline.
void save_timeline(const trace& of, const std::filesystem::path& file, const timeline_options& options = {});

}  // namespace sluice
