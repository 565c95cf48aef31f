// trace: what ran where and when on the devices, and who waited for whom; and two ways to look at it.
//
// A trace is plain data: it belongs to whoever holds it and knows no device. What makes one is elsewhere.
//
// What the writers make of odd data: an event with a time that is not finite is skipped. Times before the trace's
// begin count as the begin, times after 10^15 us as that, an end before its start as the start. A stream runs one
// command at a time, so a command still running when the next one starts is shown as ending there. A wait is left
// out unless both commands it names are shown. Bytes that are not UTF-8, and control characters where the format has
// no way to write them, become U+FFFD.
//
// Thread safety: the functions only read the trace. None of them knows global state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

enum class trace_kind : unsigned char {
    host_to_device,
    device_to_host,
    device_to_device,
    fill,
    kernel,
    library_call,
    host_call,
    graph,
};

// "upload", "download", "device copy", "fill", "kernel", "library call", "host call", "graph"; for
// display.
std::string_view to_string(trace_kind kind) noexcept;

// One command that ran.
struct trace_event {
    std::string name = {};       // of the command: "sgemm_naive", "upload"
    std::string operation = {};  // the name the user gave; may be empty
    std::size_t device = 0;      // index into trace::devices
    std::size_t stream = 0;      // index among the device's streams
    std::uint64_t ticket = 0;    // of the command, on its stream
    trace_kind kind = trace_kind::kernel;
    double start_us = 0;     // the device's clock, from the trace's begin
    double end_us = 0;       // the same
    std::size_t bytes = 0;   // moved or filled; 0 when unknown
    std::string where = {};  // "file:line" that asked for it; may be empty
};

// A stream that waited for another one of its device.
struct trace_wait {
    std::size_t device = 0;
    std::size_t from_stream = 0;    // the awaited stream
    std::uint64_t from_ticket = 0;  // the awaited command
    std::size_t to_stream = 0;      // the stream that waited
    std::uint64_t to_ticket = 0;    // its first command after the wait
};

struct trace {
    std::vector<std::string> devices = {};  // their names, "cuda:0 NVIDIA H200"
    std::vector<trace_event> events = {};   // in any order
    std::vector<trace_wait> waits = {};     // in any order
};

// JSON for Perfetto and chrome://tracing: a process for each device, a thread for each stream, a slice for each
// command, an arrow for each wait. In microseconds with three digits. Failures are left in the stream's state.
void write_chrome_trace(const trace& of, std::ostream& to);

struct timeline_options {
    int width_px = 1200;     // of the picture; from 480 to 20,000, others are taken as the nearest
    std::string title = {};  // above the picture; may be empty
};

// A picture (SVG, stand-alone, light or dark as the viewer prefers): a row for each stream, a bar for each command
// coloured by its kind, arrows for waits, all details as tooltips; beside each stream's name, for how much of the
// shown time it had a command running. The time axis begins at the trace's begin, or at the first command where that
// comes late. Neighbouring bars narrower than half a pixel are merged into bars of at most two pixels, paler the more
// idle time is in them, so the size of the picture depends on its width and the number of streams, not on the number
// of events. Failures are left in the stream's state.
void write_timeline(const trace& of, std::ostream& to, const timeline_options& options = {});

// The same into a file, which is replaced. Throw file_error (errc::io_failed) when it cannot be written whole; what
// was written until then is left there.
void save_chrome_trace(const trace& of, const std::filesystem::path& file);
void save_timeline(const trace& of, const std::filesystem::path& file, const timeline_options& options = {});

}  // namespace sluice
