// SPDX-License-Identifier: Apache-2.0
// Writes the "Trace Event Format" that Perfetto and chrome://tracing read.
//
// Perfetto drops slices that overlap on a thread, even when only rounding makes them overlap. So times are rounded to
// whole nanoseconds once, and durations are differences of rounded times.
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>

#include "sluice/trace/trace.hpp"
#include "trace/trace_reading.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::append_json;
using detail::trace_arrow;
using detail::trace_reading;
using detail::trace_span;
using detail::trace_stream;

std::int64_t nanoseconds(double us) noexcept { return std::llround(us * 1e3); }

class chrome_writer {
public:
    explicit chrome_writer(std::ostream& to) : to_(to) { text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["; }

    void process(std::size_t device, std::string_view name) {
        metadata("process_name", "name", device, 0);
        append_json(text_, name);
        text_ += "}}";
        metadata("process_sort_index", "sort_index", device, 0);
        text_.append(std::to_string(device)).append("}}");
    }

    void thread(const trace_stream& stream) {
        metadata("thread_name", "name", stream.device, stream.stream);
        append_json(text_, stream.name);
        text_ += "}}";
        metadata("thread_sort_index", "sort_index", stream.device, stream.stream);
        text_.append(std::to_string(stream.stream)).append("}}");
    }

    void slice(const trace_span& span) {
        const trace_event& event = *span.event;
        begin_event();
        text_ += "\"name\":";
        append_json(text_, event.name);
        text_ += ",\"cat\":";
        append_json(text_, to_string(event.kind));
        text_ += ",\"ph\":\"X\"";
        place(event);
        const std::int64_t start = nanoseconds(span.start_us);
        time("ts", start);
        time("dur", nanoseconds(span.end_us) - start);
        text_.append(",\"args\":{\"ticket\":").append(std::to_string(event.ticket));
        if (!event.operation.empty()) append_json(text_ += ",\"operation\":", event.operation);
        if (event.bytes != 0) text_.append(",\"bytes\":").append(std::to_string(event.bytes));
        if (!event.location.empty()) append_json(text_ += ",\"location\":", event.location);
        for (const trace_detail& each : event.details) {
            append_json(text_ += ',', each.name);
            append_json(text_ += ':', each.text);
        }
        text_ += "}}";
    }

    // An arrow from the awaited slice to the one that waited. Viewers attach an end of an arrow to the slice that is
    // running at its time. At the exact end of a slice that may be the next slice, so the arrow begins a nanosecond
    // earlier.
    void flow(const trace_span& from, const trace_span& to) {
        const std::int64_t start = nanoseconds(from.start_us);
        const std::int64_t end = nanoseconds(from.end_us);
        ++flows_;
        flow_end("s", *from.event, end > start ? end - 1 : start);
        text_ += '}';
        flow_end("f", *to.event, nanoseconds(to.start_us));
        text_ += ",\"bp\":\"e\"}";
    }

    void finish() {
        text_ += "\n]}\n";
        flush();
    }

private:
    void begin_event() {
        if (text_.size() > 60'000) flush();
        text_ += first_ ? "\n{" : ",\n{";
        first_ = false;
    }

    // Leaves the event open for the value of its argument.
    void metadata(std::string_view what, std::string_view argument, std::size_t device, std::size_t stream) {
        begin_event();
        text_.append("\"name\":\"").append(what).append("\",\"ph\":\"M\",\"pid\":").append(std::to_string(device));
        text_.append(",\"tid\":").append(std::to_string(stream));
        text_.append(",\"args\":{\"").append(argument).append("\":");
    }

    void flow_end(std::string_view phase, const trace_event& event, std::int64_t ns) {
        begin_event();
        text_.append("\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"").append(phase).append("\",\"id\":");
        text_ += std::to_string(flows_);
        place(event);
        time("ts", ns);
    }

    void place(const trace_event& event) {
        text_.append(",\"pid\":").append(std::to_string(event.device));
        text_.append(",\"tid\":").append(std::to_string(event.stream));
    }

    void time(std::string_view name, std::int64_t ns) {
        const std::string fraction = std::to_string(1000 + ns % 1000);
        text_.append(",\"").append(name).append("\":").append(std::to_string(ns / 1000));
        text_.append(".").append(fraction, 1);
    }

    void flush() {
        to_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
        text_.clear();
    }

    std::ostream& to_;
    std::string text_;  // not written yet
    bool first_ = true;
    std::size_t flows_ = 0;
};

}  // namespace

void write_chrome_trace(const trace& of, std::ostream& to) {
    const trace_reading reading = detail::read_trace(of);
    chrome_writer writer(to);
    const trace_stream* previous = nullptr;
    for (const trace_stream& stream : reading.streams) {
        if (previous == nullptr || previous->device != stream.device) {
            writer.process(stream.device, detail::device_name(of, stream.device));
        }
        writer.thread(stream);
        previous = &stream;
    }
    for (const trace_span& span : reading.spans) writer.slice(span);
    for (const trace_arrow& arrow : reading.arrows) writer.flow(reading.spans[arrow.from], reading.spans[arrow.to]);
    writer.finish();
}

}  // namespace sluice
