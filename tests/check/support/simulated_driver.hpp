// SPDX-License-Identifier: Apache-2.0
// A driver that runs nothing and writes the trace of the calls that it gets, so that tests describe programs in CUDA's
// words.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "sluice/check/check_trace.hpp"

namespace sluice::check::testing {

enum class argument_kind { read, written, unknown };

struct kernel_argument {
    std::uint64_t at;
    argument_kind how = argument_kind::written;
    std::uint64_t bytes = 0;
};
inline kernel_argument reads(std::uint64_t at) { return {at, argument_kind::read}; }
inline kernel_argument writes(std::uint64_t at) { return {at, argument_kind::written}; }
inline kernel_argument touches(std::uint64_t at) { return {at, argument_kind::unknown}; }

class simulated_driver {
public:
    using stream = std::uint64_t;
    using event = std::uint64_t;
    using memory = std::uint64_t;
    static constexpr std::uint64_t size = 4096;  // of memory, where a test does not say

    simulated_driver() { text_ << "{\"sluice_check_trace\":1,\"program\":\"planted\"}\n"; }

    stream create_stream(const char* kind = "blocking", std::uint64_t device = 0) {
        line("stream", field("stream", ++streams_) + field("device", device) + word("kind", kind));
        return streams_;
    }
    stream legacy(std::uint64_t device = 0) { return create_stream("legacy", device); }
    stream non_blocking(std::uint64_t device = 0) { return create_stream("non_blocking", device); }
    void destroy_stream(stream s) { line("stream_destroy", field("stream", s)); }

    memory malloc(std::uint64_t bytes = size, const char* where = "device", std::uint64_t device = 0) {
        const memory at = take(bytes);
        line("alloc", field("at", at) + field("bytes", bytes) + word("where", where) + field("device", device));
        return at;
    }
    memory malloc_host(std::uint64_t bytes = size) { return malloc(bytes, "pinned"); }
    memory malloc_managed(std::uint64_t bytes = size) { return malloc(bytes, "managed"); }
    memory pageable(std::uint64_t bytes = size) { return take(bytes); }
    memory malloc_async(stream s, std::uint64_t bytes = size) { return malloc_async_at(take(bytes), s, bytes); }
    // The pool hands out this memory again.
    memory malloc_async_at(memory at, stream s, std::uint64_t bytes = size) {
        line("alloc", field("at", at) + field("bytes", bytes) + field("stream", s));
        return at;
    }
    void free(memory at) { line("free", field("at", at)); }
    void free_async(memory at, stream s) { line("free", field("at", at) + field("stream", s)); }

    void copy_async(memory to, memory from, stream s, std::uint64_t bytes = size, const char* kind = "by_address") {
        line("copy", copied(to, from, s, bytes) + word("kind", kind));
    }
    // A call that CUDA refuses during a capture, such as one of a batch.
    void copy_refused(memory to, memory from, stream s, std::uint64_t bytes = size) {
        line("copy", copied(to, from, s, bytes) + ",\"failed\":true");
    }
    void copy(memory to, memory from, stream s, std::uint64_t bytes = size, const char* kind = "by_address") {
        line("copy", copied(to, from, s, bytes) + word("kind", kind) + ",\"sync\":true");
    }
    void copy_rows(memory to, memory from, stream s, std::uint64_t bytes, std::uint64_t rows, std::uint64_t to_pitch,
                   std::uint64_t from_pitch) {
        line("copy", copied(to, from, s, bytes) + field("rows", rows) + field("to_pitch", to_pitch) +
                         field("from_pitch", from_pitch));
    }
    void fill_async(memory to, stream s, std::uint64_t bytes = size) {
        line("fill", field("to", to) + field("bytes", bytes) + field("stream", s));
    }
    void fill(memory to, stream s, std::uint64_t bytes = size) {
        line("fill", field("to", to) + field("bytes", bytes) + field("stream", s) + ",\"sync\":true");
    }
    void launch(const char* name, stream s, std::initializer_list<kernel_argument> args) {
        line("kernel", field("stream", s) + word("name", name) + list(args));
    }
    void host_func(stream s) { line("host_func", field("stream", s)); }
    void host_reads(memory at, std::uint64_t bytes = size) { host(at, bytes, "read"); }
    void host_writes(memory at, std::uint64_t bytes = size) { host(at, bytes, "write"); }

    event create_event() { return ++events_; }
    void record(event e, stream s) { line("record", field("event", e) + field("stream", s)); }
    void wait(stream s, event e) { line("wait", field("event", e) + field("stream", s)); }
    void synchronize_event(event e) { line("event_sync", field("event", e)); }
    void synchronize(stream s) { line("stream_sync", field("stream", s)); }
    void synchronize_device(std::uint64_t device = 0) { line("device_sync", field("device", device)); }
    void query_done(event e) { line("event_done", field("event", e)); }
    void stream_done(stream s) { line("stream_done", field("stream", s)); }
    void destroy_event(event e) { line("event_destroy", field("event", e)); }
    // All in one: the second stream waits for the first.
    void order(stream first, stream second) {
        const event e = create_event();
        record(e, first);
        wait(second, e);
    }

    void begin_capture(stream s) { line("capture_begin", field("stream", s)); }
    std::uint64_t end_capture(stream s, bool failed = false) {
        line("capture_end",
             field("stream", s) + field("graph", ++graphs_) + (failed ? std::string(",\"failed\":true") : ""));
        return graphs_;
    }
    std::uint64_t create_graph() {
        line("graph", field("graph", ++graphs_));
        return graphs_;
    }
    std::uint64_t kernel_node(std::uint64_t graph, const char* name, std::initializer_list<kernel_argument> args,
                              const std::vector<std::uint64_t>& after = {}) {
        std::string nodes;
        for (const std::uint64_t each : after) nodes += (nodes.empty() ? "" : ",") + std::to_string(each);
        line("node", field("graph", graph) + field("node", ++nodes_) + word("kind", "kernel") + word("name", name) +
                         list(args) + ",\"after\":[" + nodes + "]");
        return nodes_;
    }
    void add_edge(std::uint64_t graph, std::uint64_t from, std::uint64_t to) {
        line("edge", field("graph", graph) + field("from", from) + field("to", to));
    }
    std::uint64_t instantiate(std::uint64_t graph) {
        line("instantiate", field("graph", graph) + field("exec", ++execs_));
        return execs_;
    }
    void launch_graph(std::uint64_t exec, stream s) { line("graph_launch", field("exec", exec) + field("stream", s)); }

    // The calls that follow come from this thread of the host.
    void on_thread(std::uint64_t number) { thread_ = number; }

    std::string trace() const { return text_.str(); }
    check_report check(const check_options& options = {}) const {
        std::istringstream from(trace());
        return check_trace(from, "planted", options);
    }

private:
    static std::string field(const char* key, std::uint64_t value) {
        return ",\"" + std::string(key) + "\":" + std::to_string(value);
    }
    static std::string word(const char* key, const char* value) {
        return ",\"" + std::string(key) + "\":\"" + value + "\"";
    }
    static std::string list(std::initializer_list<kernel_argument> args) {
        std::string text;
        for (const kernel_argument& each : args) {
            const char* const mode = each.how == argument_kind::read      ? "read"
                                     : each.how == argument_kind::written ? "writable"
                                                                          : "unknown";
            text += (text.empty() ? "{\"at\":" : ",{\"at\":") + std::to_string(each.at) + word("mode", mode) +
                    (each.bytes == 0 ? "" : field("bytes", each.bytes)) + "}";
        }
        return ",\"args\":[" + text + "]";
    }
    static std::string copied(memory to, memory from, stream s, std::uint64_t bytes) {
        return field("to", to) + field("from", from) + field("bytes", bytes) + field("stream", s);
    }
    void host(memory at, std::uint64_t bytes, const char* mode) {
        line("host", field("at", at) + field("bytes", bytes) + word("mode", mode));
    }
    memory take(std::uint64_t bytes) {
        const memory at = next_;
        next_ += (bytes + 511) / 512 * 512;
        return at;
    }
    void line(const char* op, const std::string& fields) {
        text_ << "{\"op\":\"" << op << "\",\"thread\":" << thread_ << fields << "}\n";
    }

    std::ostringstream text_;
    std::uint64_t streams_ = 0, events_ = 0, graphs_ = 0, nodes_ = 0, execs_ = 0, thread_ = 1;
    memory next_ = 0x7f0000000000;
};

}  // namespace sluice::check::testing
