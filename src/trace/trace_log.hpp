// SPDX-License-Identifier: Apache-2.0
// trace_log: the state that a trace_recorder shares with the devices that it records: a track of commands for each
// stream.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/runtime/command.hpp"
#include "sluice/trace/trace.hpp"
#include "trace/trace_clock.hpp"

namespace sluice::detail {

struct traced_command {
    std::string_view name;  // the characters are never freed
    std::string operation;
    source_location location;
    ticket number;
    trace_kind kind;
    std::size_t bytes;
    trace_interval time = {};
};

// A command whose times have not been read from its marks yet.
struct outstanding_command {
    traced_command command;
    std::unique_ptr<timed_mark> start;
    std::unique_ptr<timed_mark> end;
};

// What was recorded on one stream, in order.
class trace_track {
public:
    struct contents {
        contents() = default;
        // Marks are not copied. A deque allocates when it is moved.
        // NOLINTNEXTLINE(performance-noexcept-move-constructor)
        contents(contents&&) = default;
        contents& operator=(contents&&) = default;

        std::vector<traced_command> commands;
        std::deque<outstanding_command> outstanding;  // after those in `commands`
        std::vector<trace_wait> waits;
    };

    trace_track(std::size_t device, std::size_t stream, std::shared_ptr<trace_clock> clock)
        : device_(device), stream_(stream), clock_(std::move(clock)) {}

    std::size_t device() const noexcept { return device_; }
    std::size_t stream() const noexcept { return stream_; }
    trace_clock& clock() const noexcept { return *clock_; }

    // The stream's next command waits for this ticket. The wait is recorded when that command is added.
    void add_wait(std::size_t from_stream, ticket from);
    // Returns how many commands are outstanding.
    std::size_t add(outstanding_command command);
    // Reads the times of at most `most` outstanding commands up to `last`, in order. Blocks until these are complete.
    // Returns how many were lost because their marks threw.
    std::size_t settle(ticket last, std::size_t most);
    // Moves the contents out.
    contents cut();

private:
    const std::size_t device_;
    const std::size_t stream_;
    const std::shared_ptr<trace_clock> clock_;
    std::mutex mutex_;  // guards the following members
    contents kept_;
    std::vector<trace_wait> next_waits_;
};

class trace_log {
public:
    explicit trace_log(std::size_t most_commands)
        : most_(static_cast<std::ptrdiff_t>(std::min<std::size_t>(most_commands, PTRDIFF_MAX))) {}
    trace_log(const trace_log&) = delete;  // shared
    trace_log& operator=(const trace_log&) = delete;

    // Returns the device's index.
    std::size_t add_device(std::string name);
    std::shared_ptr<trace_track> add_track(std::size_t device, std::size_t stream, std::shared_ptr<trace_clock> clock);
    trace_clock::host_clock::time_point epoch() const noexcept { return epoch_; }

    bool has_room() const noexcept {
        return kept_.load(std::memory_order_relaxed) < most_.load(std::memory_order_relaxed);
    }
    void count_kept() noexcept { kept_.fetch_add(1, std::memory_order_relaxed); }
    void count_dropped(std::size_t more) noexcept { dropped_.fetch_add(more, std::memory_order_relaxed); }
    std::size_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

    trace take();
    // The recorder is being destroyed: no more traces are taken.
    void stop() noexcept;

private:
    using track_list = std::vector<std::shared_ptr<trace_track>>;

    trace_track::contents cut(trace_track& from);
    void add_events(trace& to, const trace_track& of, trace_track::contents contents);

    const trace_clock::host_clock::time_point epoch_ = trace_clock::host_clock::now();
    std::atomic<std::ptrdiff_t> most_;
    std::atomic<std::ptrdiff_t> kept_{0};  // a command may be taken before it is counted: below zero for a moment
    std::atomic<std::size_t> dropped_{0};
    std::mutex mutex_;  // guards the following members
    std::vector<std::string> devices_;
    track_list tracks_;
};

}  // namespace sluice::detail
