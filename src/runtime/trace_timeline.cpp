// The picture, from top to bottom: title and summary, legend, then for each device its name and a row for each
// stream, and the time axis. Arrows are drawn last, above the bars. They leave and arrive where bars face each
// other, so that they run between the rows.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "runtime/timeline_layout.hpp"
#include "runtime/timeline_style.hpp"
#include "runtime/timeline_text.hpp"
#include "runtime/trace_reading.hpp"
#include "runtime/trace_text.hpp"
#include "sluice/runtime/trace.hpp"

namespace sluice {
namespace {

using detail::append_compact;
using detail::append_xml;
using detail::timeline_bar;
using detail::timeline_scale;
using detail::timeline_tick;
using detail::trace_arrow;
using detail::trace_reading;
using detail::trace_span;
using detail::trace_stream;

constexpr double margin_px = 18;
constexpr double row_px = 38;
constexpr double bar_px = 24;
constexpr double device_px = 28;  // the line with a device's name
constexpr double text_px = 12;
constexpr double small_px = 11;
constexpr double title_px = 16;
constexpr double least_bar_px = 0.75;  // so that short commands are seen
constexpr std::size_t many_arrows = 100;

std::string css_class(trace_kind kind) {
    std::string name(to_string(static_cast<trace_kind>(detail::index_of(kind))));
    std::ranges::replace(name, ' ', '-');
    return name;
}

double label_room_px(std::string_view label) { return 1.5 * detail::text_px(label, small_px) + 30; }

// A row's place, from its stream.
struct row {
    const trace_stream* stream;
    double top_px;

    double bar_top_px() const noexcept { return top_px + (row_px - bar_px) / 2; }
};

class timeline_writer {
public:
    timeline_writer(const trace& of, const timeline_options& options, std::ostream& to)
        : trace_(of),
          title_(options.title),
          width_px_(std::clamp(options.width_px, 480, 20'000)),
          reading_(detail::read_trace(of)),
          summary_(detail::summary(reading_)),
          to_(to) {
        const double left_px = margin_px + label_px() + 10;
        scale_ = detail::fit(reading_.spans, left_px, width_px_ - margin_px - 4);
    }

    void write() {
        place();
        begin();
        heading();
        if (rows_.empty()) {
            text("muted", width_px_ / 2, body_top_px_ + 24, "Nothing was traced.", "middle");
        } else {
            legend();
            axis();
            for (const row& each : rows_) labels(each);
            for (const row& each : rows_) bars(each);
            arrows();
        }
        text_ += "</svg>\n";
        flush();
    }

private:
    // Layout.

    double label_px() const {
        double widest = 0;
        for (const trace_stream& stream : reading_.streams) {
            widest = std::max(widest, detail::text_px(stream_label(stream), text_px));
        }
        return widest + detail::text_px("100 %", small_px) + 10;
    }

    void place() {
        place_legend();
        double y = body_top_px_;
        const trace_stream* previous = nullptr;
        for (const trace_stream& stream : reading_.streams) {
            if (previous == nullptr || previous->device != stream.device) y += device_px;
            rows_.push_back({&stream, y});
            y += row_px;
            previous = &stream;
        }
        body_bottom_px_ = y + 4;
        height_px_ = rows_.empty() ? body_top_px_ + 52 : body_bottom_px_ + 34;
    }

    struct legend_entry {
        std::string what;  // a CSS class
        std::string label;
        double x_px;
        double y_px;
    };

    void place_legend() {
        std::set<std::size_t> kinds;
        for (const trace_span& span : reading_.spans) kinds.insert(detail::index_of(span.event->kind));
        double x = margin_px, y = 62;
        const auto add = [&](std::string what, std::string label) {
            const double entry_px = 18 + detail::text_px(label, small_px) + 16;
            if (x + entry_px > width_px_ - margin_px + 16) x = margin_px, y += 20;
            legend_.push_back({std::move(what), std::move(label), x, y});
            x += entry_px;
        };
        for (const std::size_t kind : kinds) {
            const auto of_kind = static_cast<trace_kind>(kind);
            add(css_class(of_kind), std::string(to_string(of_kind)));
        }
        if (!reading_.arrows.empty()) add("wait", "wait");
        body_top_px_ = legend_.empty() ? 48 : y + 8;
    }

    static std::string stream_label(const trace_stream& stream) { return "stream " + std::to_string(stream.stream); }

    std::span<const trace_span> spans_of(const trace_stream& stream) const {
        return std::span(reading_.spans).subspan(stream.first, stream.last - stream.first);
    }

    const row& row_of(std::size_t span) const {
        return *std::prev(
            std::ranges::upper_bound(rows_, span, {}, [](const row& each) { return each.stream->first; }));
    }

    // Parts of the picture.

    void begin() {
        text_ += "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice-timeline\" role=\"img\"";
        attribute("width", width_px_);
        attribute("height", height_px_);
        text_ += " viewBox=\"0 0 ";
        append_compact(text_, width_px_, 0);
        append_compact(text_ += ' ', height_px_, 0);
        append_xml(text_ += "\" aria-label=\"", title_.empty() ? "Timeline: " : title_ + ": ");
        append_xml(text_, summary_);
        text_.append("\">\n").append(detail::timeline_style);
        text_ += "<rect class=\"ground\" x=\"0.5\" y=\"0.5\" rx=\"8\"";
        attribute("width", width_px_ - 1);
        attribute("height", height_px_ - 1);
        text_ += "/>\n";
    }

    void heading() {
        const double room_px = width_px_ - 2 * margin_px;
        const std::string summary = detail::elided(summary_, small_px, room_px);
        if (title_.empty()) return text("muted", margin_px, 34, summary);
        const double summary_px = detail::text_px(summary, small_px) + 24;
        text("title", margin_px, 34, detail::elided(title_, title_px * 1.06, room_px - summary_px));
        text("muted", width_px_ - margin_px, 34, summary, "end");
    }

    void legend() {
        for (const legend_entry& entry : legend_) {
            if (entry.what == "wait") {
                path("wait", {entry.x_px, entry.y_px - 8}, {entry.x_px + 10, entry.y_px + 1});
                tip({entry.x_px + 10, entry.y_px + 1}, 1);
            } else {
                rect(entry.what, entry.x_px, entry.y_px - 10, 12, 12, 3);
            }
            text("muted", entry.x_px + 18, entry.y_px, entry.label);
        }
    }

    void axis() {
        for (const row& each : rows_) {
            rect("band", scale_.left_px, each.top_px + 2, scale_.right_px - scale_.left_px, row_px - 4, 4);
        }
        const double top_px = rows_.front().top_px - 4;
        for (const timeline_tick& tick : detail::ticks(scale_, label_room_px)) {
            const double x = scale_.at(tick.us);
            line("grid", x, top_px, x, body_bottom_px_);
            const double half_px = detail::text_px(tick.label, small_px) / 2;
            const bool at_edge = x + half_px > width_px_ - 8;
            text("muted tick", at_edge ? width_px_ - margin_px : x, body_bottom_px_ + 17, tick.label,
                 at_edge ? "end" : "middle");
        }
        line("axis", scale_.left_px, body_bottom_px_, scale_.right_px, body_bottom_px_);
    }

    void labels(const row& each) {
        const trace_stream& stream = *each.stream;
        const bool first_of_device = stream.first == 0 || (&each)[-1].stream->device != stream.device;
        if (first_of_device) {
            const std::string name = detail::device_name(trace_, stream.device);
            text("device", margin_px, each.top_px - 8, detail::elided(name, text_px, width_px_ - 2 * margin_px));
        }
        const double baseline_px = each.top_px + row_px / 2 + 4;
        text("stream", margin_px, baseline_px, stream_label(stream));
        double busy_us = 0;
        for (const trace_span& span : spans_of(stream)) busy_us += span.duration_us();
        std::string busy;
        append_compact(busy, 100 * std::min(1.0, busy_us / (scale_.end_us - scale_.begin_us)), 0);
        text("muted", scale_.left_px - 10, baseline_px, busy.append(" %"), "end");
    }

    void bars(const row& each) {
        const std::string device = detail::device_name(trace_, each.stream->device);
        text_ += "<g class=\"row\">\n";
        for (const timeline_bar& one : detail::merge_bars(spans_of(*each.stream), scale_.px_per_us())) {
            bar(one, each.bar_top_px(), device);
        }
        text_ += "</g>\n";
    }

    void bar(const timeline_bar& one, double top_px, std::string_view device) {
        const double x = scale_.at(one.start_us);
        const double width_px = std::max(least_bar_px, (one.end_us - one.start_us) * scale_.px_per_us());
        text_ += "<g class=\"bar\"><title>";
        append_xml(text_, detail::tooltip(one, device));
        text_ += "</title>";
        const bool wide = width_px >= 4;  // wide enough for round corners and a hairline behind
        const double busy = one.count == 1 ? 1 : one.busy_us / std::max(one.busy_us, one.end_us - one.start_us);
        rect(css_class(one.kind), x, top_px, wide ? width_px - 1 : width_px, bar_px,
             wide ? std::min(3.0, width_px / 4) : 0, one.count == 1 ? 1 : 0.25 + 0.75 * busy);
        if (one.count == 1) name(*one.first->event, x, top_px, width_px - 1);
        text_ += "</g>\n";
    }

    // The name, and behind it what the user called the operation, where there is room. A picture in the picture
    // clips what is wider than estimated.
    void name(const trace_event& event, double x, double top_px, double width_px) {
        constexpr double inset_px = 6;
        const double room_px = width_px - 2 * inset_px;
        const std::string shown = detail::elided(event.name, small_px, room_px);
        if (shown.empty()) return;
        text_ += "<svg";
        attribute("x", x);
        attribute("y", top_px);
        attribute("width", width_px);
        attribute("height", bar_px);
        text_ += "><text class=\"name\" x=\"6\" y=\"16\">";
        append_xml(text_, shown);
        const double left_px = room_px - detail::text_px(event.name, small_px) - 6;
        if (!event.operation.empty() && detail::text_px(event.operation, small_px) <= left_px) {
            text_ += "<tspan class=\"of\" dx=\"6\">";
            append_xml(text_, event.operation);
            text_ += "</tspan>";
        }
        text_ += "</text></svg>";
    }

    void arrows() {
        // Arrows that would lie on each other are drawn once.
        std::set<std::tuple<const row*, const row*, long, long>> drawn;
        text_ += reading_.arrows.size() > many_arrows ? "<g class=\"many\">\n" : "<g>\n";
        for (const trace_arrow& each : reading_.arrows) {
            const row& from = row_of(each.from);
            const row& to = row_of(each.to);
            const trace_span& awaited = reading_.spans[each.from];
            const trace_span& waiting = reading_.spans[each.to];
            const double from_px = scale_.at(awaited.end_us), to_px = scale_.at(waiting.start_us);
            if (!drawn.insert({&from, &to, std::lround(from_px / 2), std::lround(to_px / 2)}).second) continue;
            const bool down = from.top_px < to.top_px;
            // Inside the corners of the bars.
            const double out_px = std::min(3.0, awaited.duration_us() * scale_.px_per_us() / 2) + 1;
            const double in_px = std::min(3.0, waiting.duration_us() * scale_.px_per_us() / 2);
            arrow({from_px - out_px, from.bar_top_px() + (down ? bar_px : 0)},
                  {to_px + in_px, to.bar_top_px() + (down ? 0 : bar_px)}, detail::tooltip(awaited, waiting));
        }
        text_ += "</g>\n";
    }

    struct point {
        double x;
        double y;
    };

    void arrow(point from, point to, std::string_view tooltip) {
        const double direction = to.y > from.y ? 1 : -1;
        text_ += "<g class=\"arrow\"><title>";
        append_xml(text_, tooltip);
        text_ += "</title>";
        path("halo", from, {to.x, to.y - 4 * direction});
        path("wait", from, {to.x, to.y - 4 * direction});
        tip(to, direction);
        text_ += "</g>\n";
    }

    // Elements.

    // A curve that leaves and arrives vertically.
    void path(std::string_view what, point from, point to) {
        const double bend = (to.y - from.y) * 0.6;
        open("path", what);
        text_ += " d=\"M";
        coordinates(from);
        coordinates({from.x, from.y + bend}, "C");
        coordinates({to.x, to.y - bend}, " ");
        coordinates(to, " ");
        text_ += "\"/>";
    }

    void tip(point at, double direction) {
        open("path", "tip");
        text_ += " d=\"M";
        coordinates(at);
        coordinates({at.x - 3.5, at.y - 6 * direction}, "L");
        coordinates({at.x + 3.5, at.y - 6 * direction}, "L");
        text_ += "Z\"/>";
    }

    void rect(std::string_view what, double x, double y, double width_px, double height_px, double radius_px,
              double opacity = 1) {
        open("rect", what);
        attribute("x", x);
        attribute("y", y);
        attribute("width", width_px);
        attribute("height", height_px);
        if (radius_px > 0) attribute("rx", radius_px);
        if (opacity < 1) attribute("fill-opacity", opacity);
        text_ += "/>";
    }

    void line(std::string_view what, double x1, double y1, double x2, double y2) {
        open("line", what);
        attribute("x1", x1);
        attribute("y1", y1);
        attribute("x2", x2);
        attribute("y2", y2);
        text_ += "/>\n";
    }

    void text(std::string_view what, double x, double y, std::string_view words, std::string_view anchor = {}) {
        open("text", what);
        attribute("x", x);
        attribute("y", y);
        if (!anchor.empty()) text_.append(" text-anchor=\"").append(anchor).append("\"");
        append_xml(text_ += '>', words);
        text_ += "</text>\n";
    }

    void open(std::string_view element, std::string_view what) {
        if (text_.size() > 60'000) flush();
        text_.append("<").append(element).append(" class=\"").append(what).append("\"");
    }

    void attribute(std::string_view name, double value) {
        append_compact(text_.append(" ").append(name).append("=\""), value, 2);
        text_ += '"';
    }

    void coordinates(point at, std::string_view before = {}) {
        append_compact(text_.append(before), at.x, 2);
        append_compact(text_ += ' ', at.y, 2);
    }

    void flush() {
        to_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
        text_.clear();
    }

    const trace& trace_;
    const std::string title_;
    const double width_px_;
    const trace_reading reading_;
    const std::string summary_;
    timeline_scale scale_{};
    std::vector<row> rows_;
    std::vector<legend_entry> legend_;
    double body_top_px_ = 0;
    double body_bottom_px_ = 0;
    double height_px_ = 0;
    std::ostream& to_;
    std::string text_;  // not written yet
};

}  // namespace

void write_timeline(const trace& of, std::ostream& to, const timeline_options& options) {
    timeline_writer(of, options, to).write();
}

}  // namespace sluice
