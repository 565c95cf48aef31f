// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_reading.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

constexpr double latest_us = 1e15;

bool same_stream(const trace_event& a, const trace_event& b) noexcept {
    return a.device == b.device && a.stream == b.stream;
}

std::vector<trace_span> sorted_spans(const trace& of) {
    std::vector<trace_span> spans;
    spans.reserve(of.events.size());
    for (const trace_event& event : of.events) {
        if (!std::isfinite(event.start_us) || !std::isfinite(event.end_us)) continue;
        const double start_us = std::clamp(event.start_us, 0.0, latest_us);
        spans.push_back({&event, start_us, std::clamp(event.end_us, start_us, latest_us)});
    }
    const auto order = [](const trace_span& span) {
        return std::tuple(span.event->device, span.event->stream, span.start_us, span.event->ticket, span.event);
    };
    std::ranges::sort(spans, {}, order);
    return spans;
}

// Viewers drop slices that overlap on one thread, and measured times may overlap by a nanosecond.
void end_before_the_next(std::vector<trace_span>& spans) {
    for (std::size_t i = 1; i < spans.size(); ++i) {
        if (!same_stream(*spans[i - 1].event, *spans[i].event)) continue;
        spans[i - 1].end_us = std::min(spans[i - 1].end_us, spans[i].start_us);
    }
}

std::vector<trace_stream> streams_of(const trace& of, const std::vector<trace_span>& spans) {
    std::vector<trace_stream> streams;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const trace_event& event = *spans[i].event;
        if (i == 0 || !same_stream(*spans[i - 1].event, event)) {
            streams.push_back({event.device, event.stream, i, i, stream_name(of, event.device, event.stream)});
        }
        streams.back().last = i + 1;
    }
    return streams;
}

// Finds spans by their tickets.
class ticket_index {
public:
    explicit ticket_index(std::span<const trace_span> spans) {
        entries_.reserve(spans.size());
        for (std::size_t i = 0; i < spans.size(); ++i) {
            const trace_event& event = *spans[i].event;
            entries_.push_back({{event.device, event.stream, event.ticket}, i});
        }
        std::ranges::sort(entries_);
    }

    std::optional<std::size_t> find(std::size_t device, std::size_t stream, std::uint64_t ticket) const {
        const key wanted{device, stream, ticket};
        const auto found = std::ranges::lower_bound(entries_, wanted, {}, &entry::first);
        if (found == entries_.end() || found->first != wanted) return std::nullopt;
        return found->second;
    }

private:
    using key = std::tuple<std::size_t, std::size_t, std::uint64_t>;
    using entry = std::pair<key, std::size_t>;
    std::vector<entry> entries_;
};

}  // namespace

trace_reading read_trace(const trace& of) {
    trace_reading reading;
    reading.spans = sorted_spans(of);
    end_before_the_next(reading.spans);
    reading.streams = streams_of(of, reading.spans);
    if (of.waits.empty()) return reading;
    const ticket_index index(reading.spans);
    for (const trace_wait& wait : of.waits) {
        const auto from = index.find(wait.device, wait.from_stream, wait.from_ticket);
        const auto to = index.find(wait.device, wait.to_stream, wait.to_ticket);
        if (from && to) reading.arrows.push_back({*from, *to});
    }
    return reading;
}

std::string stream_name(const trace& of, std::size_t device, std::size_t stream) {
    for (const trace_stream_name& each : of.stream_names)
        if (each.device == device && each.stream == stream && !each.name.empty()) return each.name;
    return "stream " + std::to_string(stream);
}

std::string device_name(const trace& of, std::size_t device) {
    if (device < of.devices.size() && !of.devices[device].empty()) return of.devices[device];
    return "device " + std::to_string(device);
}

}  // namespace sluice::detail
