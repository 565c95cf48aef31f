// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_log.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace sluice::detail {
namespace {

std::string file_and_line(const source_location& location) {
    if (location.line() == 0) return {};
    const std::string_view path = location.file_name();
    return std::string(path.substr(path.find_last_of("/\\") + 1)) + ":" + std::to_string(location.line());
}

// Empty when the marks have no times because the device has faulted.
std::optional<traced_command> read(outstanding_command from, trace_clock& clock) noexcept {
    try {
        from.command.time = clock.read(std::move(from.start), std::move(from.end));
        return std::move(from.command);
    } catch (...) {
        return std::nullopt;
    }
}

// Counts the times from the first command's start.
void begin_at_zero(std::vector<trace_event>& events) {
    double first_us = std::numeric_limits<double>::infinity();
    for (const trace_event& each : events) first_us = std::min(first_us, each.start_us);
    for (trace_event& each : events) {
        each.start_us -= first_us;
        each.end_us -= first_us;
    }
}

}  // namespace

void trace_track::add_wait(std::size_t from_stream, ticket from) {
    const std::lock_guard lock(mutex_);
    next_waits_.push_back({device_, from_stream, from, stream_, 0});
}

std::size_t trace_track::add(outstanding_command command) {
    const std::lock_guard lock(mutex_);
    for (trace_wait& each : next_waits_) {
        each.to_ticket = command.command.number;
        kept_.waits.push_back(each);
    }
    next_waits_.clear();
    kept_.outstanding.push_back(std::move(command));
    return kept_.outstanding.size();
}

std::size_t trace_track::settle(ticket last, std::size_t most) {
    std::size_t lost = 0;
    const std::lock_guard lock(mutex_);
    auto& outstanding = kept_.outstanding;
    for (; most != 0 && !outstanding.empty() && outstanding.front().command.number <= last; --most) {
        outstanding_command oldest = std::move(outstanding.front());
        outstanding.pop_front();
        if (auto done = read(std::move(oldest), *clock_)) {
            kept_.commands.push_back(std::move(*done));
        } else {
            ++lost;
        }
    }
    return lost;
}

trace_track::contents trace_track::cut() {
    const std::lock_guard lock(mutex_);
    return std::exchange(kept_, {});
}

std::size_t trace_log::add_device(std::string name) {
    const std::lock_guard lock(mutex_);
    devices_.push_back(std::move(name));
    return devices_.size() - 1;
}

std::shared_ptr<trace_track> trace_log::add_track(std::size_t device, std::size_t stream,
                                                  std::shared_ptr<trace_clock> clock) {
    auto made = std::make_shared<trace_track>(device, stream, std::move(clock));
    const std::lock_guard lock(mutex_);
    tracks_.push_back(made);
    return made;
}

trace_track::contents trace_log::cut(trace_track& from) {
    trace_track::contents contents = from.cut();
    kept_.fetch_sub(static_cast<std::ptrdiff_t>(contents.commands.size() + contents.outstanding.size()),
                    std::memory_order_relaxed);
    return contents;
}

void trace_log::add_events(trace& to, const trace_track& of, trace_track::contents contents) {
    for (outstanding_command& each : contents.outstanding) {
        if (auto done = read(std::move(each), of.clock())) {
            contents.commands.push_back(std::move(*done));
        } else {
            count_dropped(1);
        }
    }
    double before_us = -std::numeric_limits<double>::infinity();
    for (traced_command& each : contents.commands) {
        // A stream runs one command at a time, but times are rounded.
        const double start_us = std::max(each.time.start_us, before_us);
        before_us = std::max(each.time.end_us, start_us);
        to.events.push_back({std::string(each.name), std::move(each.operation), of.device(), of.stream(), each.number,
                             each.kind, start_us, before_us, each.bytes, file_and_line(each.location)});
    }
    to.waits.insert(to.waits.end(), contents.waits.begin(), contents.waits.end());
}

trace trace_log::take() {
    trace made;
    track_list tracks;
    {
        const std::lock_guard lock(mutex_);
        made.devices = devices_;
        tracks = tracks_;
        // Tracks of destroyed streams have been settled, and nothing is added to them.
        std::erase_if(tracks_, [](const auto& each) { return each.use_count() == 2; });
    }
    std::vector<trace_track::contents> parts;
    parts.reserve(tracks.size());
    for (const auto& each : tracks) parts.push_back(cut(*each));
    for (std::size_t i = 0; i < parts.size(); ++i) add_events(made, *tracks[i], std::move(parts[i]));
    begin_at_zero(made.events);
    return made;
}

void trace_log::stop() noexcept {
    most_.store(0, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    try {
        for (const auto& each : tracks_) cut(*each);
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the rest is released with the devices
    }
    tracks_.clear();
}

}  // namespace sluice::detail
