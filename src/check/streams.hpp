// SPDX-License-Identifier: Apache-2.0
// streams: what happens before what, over the host, streams and events of a program.
//
// The threads of the host are one timeline, in the order of the trace: what one thread has waited for, all know. Locks
// between threads are not in a trace, and without them each hand-over would look wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/event.hpp"
#include "check/shadow.hpp"
#include "check/vector_clock.hpp"

namespace sluice::check {

// The trace refers to what it has not declared, or needs more than is kept. Becomes a file_error with the line.
struct trace_refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// An event was recorded again before anything waited for the earlier record.
struct lost_record {
    moment earlier;  // what the earlier record was for
    call_ref again;  // the later record
};

struct stream_state {
    std::uint64_t id = 0;
    std::uint64_t device = 0;
    stream_kind kind = stream_kind::blocking;
    timeline_index timeline = 0;
    std::uint32_t commands = 0;
    bool is_destroyed = false;
    vector_clock clock;               // what the next command is ordered after
    std::uint64_t capture = 0;        // 0: none
    std::vector<std::uint32_t> tail;  // of the capture: the nodes that the next one is ordered after
    std::vector<lost_record> lost;    // by waits of this stream, the last few

    moment last() const noexcept { return {timeline, commands}; }
};

// A wait for an event that had no record by then. Where the event is recorded and waited for again at the same place,
// this was the first turn of a loop, in which there was nothing to wait for yet.
struct early_wait {
    call_ref by;
    std::string message;
    std::string remedy;
};

struct event_state {
    std::shared_ptr<const vector_clock> upto;  // null: not recorded
    moment recorded;
    call_ref by;
    bool is_awaited = false;
    std::vector<early_wait> early;    // one for each place, the first few
    std::vector<lost_record> lost;    // the last few
    std::uint64_t capture = 0;        // recorded in this capture
    std::vector<std::uint32_t> tail;  // its nodes
};

class streams {
public:
    void declare(const event& from);
    void destroy(std::uint64_t id);
    stream_state& find(std::uint64_t id);

    // A command is submitted: it is ordered after what the host knows and what the stream waited for.
    moment submit(stream_state& to);
    // A use by the host, now.
    moment host_use();

    event_state& event_of(std::uint64_t id);  // made when it is new
    event_state* find_event(std::uint64_t id) noexcept;
    void destroy_event(std::uint64_t id) { events_.erase(id); }
    // Calls function(event_state&) for each.
    template <typename Function>
    void for_events(const Function& function) {
        for (auto& each : events_) function(each.second);
    }
    void record(event_state& what, stream_state& on, const call_ref& by);
    // Each returns whether something was learnt.
    bool wait(stream_state& waiter, event_state& what);
    bool host_waits(const vector_clock& what);
    bool host_waits(stream_state& what);
    bool host_waits_for_device(std::uint64_t device);
    bool host_waits_for_all();
    // No stream is in that capture any more.
    void end_capture(std::uint64_t number);

    const vector_clock& host() const noexcept { return host_; }

    static constexpr std::size_t most_streams = 1024;  // at a time
    static constexpr std::size_t most_events = 65'536;

private:
    void join_default_stream(stream_state& to);

    std::vector<std::unique_ptr<stream_state>> all_;  // by timeline - 1
    std::unordered_map<std::uint64_t, std::size_t> by_id_;
    std::unordered_map<std::uint64_t, event_state> events_;
    vector_clock host_;
    std::uint32_t host_uses_ = 0;
};

}  // namespace sluice::check
