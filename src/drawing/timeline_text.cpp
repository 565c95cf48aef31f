// SPDX-License-Identifier: Apache-2.0
#include "drawing/timeline_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "trace/trace_text.hpp"

namespace sluice::detail {
namespace {

double em(char32_t code_point) noexcept {
    if (code_point >= 0x1100) return 1.05;  // East Asian scripts, emoji
    if (code_point >= 0x80) return 0.66;
    const std::string_view narrow = " !'(),./:;I[]fijlrt|";
    const std::string_view wide = "%@MWmw";
    const char c = static_cast<char>(code_point);
    if (narrow.find(c) != std::string_view::npos) return 0.38;
    if (wide.find(c) != std::string_view::npos) return 0.92;
    return c >= 'A' && c <= 'Z' ? 0.7 : 0.59;
}

void append_us(std::string& to, double us) {
    append_compact(to, us, 3);
    to += " µs";
}

void append_times(std::string& to, double start_us, double end_us) {
    append_us(to += "\nfrom ", start_us);
    append_us(to += " to ", end_us);
    to.append(": ").append(duration_text(end_us - start_us));
}

void append_bytes(std::string& to, const trace_span& span) {
    const auto bytes = static_cast<double>(span.event->bytes);
    to.append("\n").append(bytes_text(bytes));
    if (span.duration_us() > 0)
        to.append(", ").append(bytes_text(bytes / span.duration_us() * 1e6)).append(" a second");
}

std::string tooltip_of_one(const trace_span& span, std::string_view place) {
    const trace_event& event = *span.event;
    std::string text = event.name;
    if (event.name != to_string(event.kind)) text.append(" (").append(to_string(event.kind)).append(")");
    if (!event.operation.empty()) text.append("\noperation ").append(event.operation);
    text.append("\n").append(place).append(", ticket ").append(std::to_string(event.ticket));
    append_times(text, span.start_us, span.end_us);
    if (event.bytes != 0) append_bytes(text, span);
    if (!event.location.empty()) text.append("\n").append(event.location);
    for (const trace_detail& each : event.details) text.append("\n").append(each.name).append(" ").append(each.text);
    return text;
}

std::string tooltip_of_many(const timeline_bar& bar, std::string_view place) {
    std::array<std::size_t, trace_kinds> counts{};
    for (const trace_span& span : std::span(bar.first, bar.count)) ++counts[index_of(span.event->kind)];
    std::string text = count_text(bar.count, "command");
    std::string_view separator = ": ";
    for (std::size_t kind = 0; kind < trace_kinds; ++kind) {
        if (counts[kind] == 0) continue;
        text.append(separator).append(count_text(counts[kind])).append(" ");
        text.append(to_string(static_cast<trace_kind>(kind)));
        separator = ", ";
    }
    text.append("\n").append(place);
    append_times(text, bar.start_us, bar.end_us);
    text.append(", ").append(duration_text(bar.busy_us)).append(" busy");
    return text;
}

}  // namespace

double text_px(std::string_view text, double font_px) {
    double ems = 0;
    for (std::size_t at = 0; at < text.size();) ems += em(next_code_point(text, at));
    return ems * font_px;
}

std::string elided(std::string_view text, double font_px, double room_px) {
    constexpr std::string_view dots = "…";
    const double dots_px = 1.05 * font_px;
    double px = 0;
    std::size_t shown = 0, shown_bytes = 0;  // with the dots
    for (std::size_t at = 0; at < text.size();) {
        px += em(next_code_point(text, at)) * font_px;
        if (px + dots_px <= room_px) ++shown, shown_bytes = at;
        if (px > room_px) return shown < 2 ? std::string() : std::string(text.substr(0, shown_bytes)).append(dots);
    }
    return std::string(text);
}

std::string exact(double number) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    return {text.data(), end};
}

std::string css_class(trace_kind kind) {
    std::string name(to_string(kind));
    std::ranges::replace(name, ' ', '-');
    return name;
}

std::string tooltip(const timeline_bar& bar, std::string_view place) {
    return bar.count == 1 ? tooltip_of_one(*bar.first, place) : tooltip_of_many(bar, place);
}

std::string tooltip(const trace_span& awaited, std::string_view awaited_stream, const trace_span& waiting,
                    std::string_view waiting_stream) {
    const auto end = [](const trace_event& event, std::string_view stream) {
        return event.name + " (" + std::string(stream) + ", ticket " + std::to_string(event.ticket) + ")";
    };
    return end(*waiting.event, waiting_stream) + "\nwaited for " + end(*awaited.event, awaited_stream);
}

std::string summary(const trace_reading& of) {
    if (of.spans.empty()) return "0 commands";
    const double first_us = std::ranges::min(of.spans, {}, &trace_span::start_us).start_us;
    const double last_us = std::ranges::max(of.spans, {}, &trace_span::end_us).end_us;
    std::string text = count_text(of.spans.size(), "command") + " on " + count_text(of.streams.size(), "stream") +
                       " in " + duration_text(last_us - first_us);
    if (!of.arrows.empty()) text.append(", ").append(count_text(of.arrows.size(), "wait"));
    return text;
}

}  // namespace sluice::detail
