// SPDX-License-Identifier: Apache-2.0
// event: one line of a trace, as plain data. docs/check.md describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::check {

enum class call : unsigned char {
    stream,          // a stream exists from here on: stream, device, kind
    stream_destroy,  // stream
    alloc,           // at, bytes, where, device; stream when it is stream-ordered
    free,            // at; stream when it is stream-ordered
    copy,            // stream, from, to, bytes, kind, sync
    fill,            // stream, to, bytes, sync
    kernel,          // stream, name or function, args
    host_func,       // stream, name
    record,          // event, stream
    wait,            // event, stream
    event_sync,      // event: the host waits
    stream_sync,     // stream: the host waits
    device_sync,     // device: the host waits for all of its streams
    event_done,      // event: a query has answered that it is complete
    stream_done,     // stream: likewise
    event_destroy,   // event
    host,            // the host reads or writes: at, bytes, mode
    capture_begin,   // stream
    capture_end,     // stream, graph; failed
    graph,           // a graph exists from here on: graph
    node,            // graph, node, kind (of a call), what that call has, after
    edge,            // graph, from, to
    instantiate,     // graph, exec
    graph_launch,    // exec, stream
    graph_destroy,   // graph
    exec_destroy,    // exec
    function,        // the name of a kernel: function, name
    frames,          // a call stack: stack, frames
    unseen,          // the recorder has seen a call that it does not follow: name
};

enum class access_mode : unsigned char {
    read,
    write,
    writable,  // an argument through which a kernel may write, by its type, and mostly does
    unknown,   // reads or writes
};

enum class place_kind : unsigned char { device, pinned, managed, unknown };
enum class copy_kind : unsigned char { by_address, to_device, to_host, on_device, on_host };
enum class stream_kind : unsigned char { blocking, non_blocking, legacy };

// The bytes from `at`: `rows` times `bytes`, each `pitch` after the one before.
struct byte_span {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;  // of a row
    std::uint64_t rows = 1;
    std::uint64_t pitch = 0;  // at least `bytes` where there are several rows

    std::uint64_t end() const noexcept { return rows == 0 || bytes == 0 ? at : at + (rows - 1) * pitch + bytes; }
    bool operator==(const byte_span&) const = default;
};

// A pointer among a kernel's arguments.
struct argument {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;  // 0: not known
    access_mode mode = access_mode::unknown;
};

struct event {
    call what = call::unseen;
    call node_call = call::unseen;  // of a node: what it does
    std::uint64_t line = 0;
    std::uint64_t thread = 0;
    std::uint64_t stack = 0;  // 0: none
    std::uint64_t stream = 0;
    bool has_stream = false;
    std::uint64_t function = 0;  // 0: none
    std::uint64_t id = 0;        // of the event, graph or stack that the line is about
    std::uint64_t other = 0;     // node, exec
    std::uint64_t device = 0;
    byte_span from, to;   // `to` is also the memory of alloc, free, fill and host
    bool sync = false;    // the call of the synchronous kind
    bool failed = false;  // the call has returned an error
    place_kind where = place_kind::device;
    copy_kind direction = copy_kind::by_address;
    stream_kind kind = stream_kind::blocking;
    access_mode mode = access_mode::read;
    std::string name;
    std::vector<argument> args;
    std::vector<std::uint64_t> after;  // nodes
    std::vector<std::string> frames;
};

}  // namespace sluice::check
