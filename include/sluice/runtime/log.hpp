// SPDX-License-Identifier: Apache-2.0
// log_function: how a runtime reports rare events to the program's logger: devices, library handles, workspaces,
// graphs, modules, faults. Set in runtime_options::log; without it nothing is formatted, and an event costs one check.
// Commands and launches are no events: see trace_recorder for those.
//
//     runtime machine({.log = [](const log_entry& entry) {
//         std::clog << to_string(entry.level) << ' ' << entry.message << '\n';
//     }});
//
// Threads: the function is called on the thread on which the event happens: the one that constructs the runtime,
// compiles, launches or submits, or the runtime's completion thread (faults, and what host-driven operations submit).
// A runtime makes one call at a time; two runtimes with one function may call it concurrently. It is not called after
// the runtime's destructor has returned (when a host call drops the runtime: after the runtime's own thread has closed
// it).
//
// The function must not call Sluice, nor wait for a thread that calls Sluice: the caller may hold locks. What it throws
// is dropped, and nothing else changes. Events that happen inside the function are dropped as well.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace sluice {

// With spdlog's names, in its order: static_cast<spdlog::level::level_enum>(level) is the same level.
enum class log_level : unsigned char { trace, debug, info, warn, error, critical };

// What happened. The comments say the level, and what log_entry::name and bytes are.
enum class log_event : unsigned char {
    device_found,        // info; name: the device's model; bytes: its memory
    no_gpu,              // info; the message says why
    library_handle,      // debug; name: the library
    workspace_grown,     // debug; bytes: its new size
    graph_instantiated,  // debug; name: the graph; bytes: the memory of the replica's temporaries
    graph_updated,       // debug; info when it was instantiated again: the message says why; name: the graph
    module_loaded,       // debug; name: the module
    module_compiled,     // info; name: the module
    device_fault,        // critical; the message is the first cause
};

std::string_view to_string(log_level level) noexcept;  // its name: "info"; of an event "no_gpu"; costs O(1)
std::string_view to_string(log_event event) noexcept;

// Valid during the call only.
struct log_entry {
    log_level level = log_level::info;          // how serious it is
    log_event event = log_event::device_found;  // what happened
    std::string_view device = {};               // "cuda:0"; empty when there is none
    std::string_view name = {};                 // see log_event; empty when there is none
    std::size_t bytes = 0;                      // see log_event
    std::string_view message = {};              // one line of printable text, which contains all of the above
};

using log_function = std::function<void(const log_entry& entry)>;  // one call at a time

}  // namespace sluice
