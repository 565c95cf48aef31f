// SPDX-License-Identifier: Apache-2.0
// Draws a timeline, from top to bottom: title, summary, legend, then for each device its name and a row for each
// stream, and the time axis. Arrows are drawn last, above the bars. They leave and arrive where bars face each other,
// so that they run between the rows. What lies along the time is in one group, `time`, which the script moves; the pane
// around it clips.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "drawing/svg_writer.hpp"
#include "drawing/timeline_layout.hpp"
#include "drawing/timeline_legend.hpp"
#include "drawing/timeline_script.hpp"
#include "drawing/timeline_style.hpp"
#include "drawing/timeline_text.hpp"
#include "sluice/trace/trace.hpp"
#include "trace/trace_reading.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::css_class;
using detail::svg_writer;
using detail::text_px;
using detail::timeline_bar;
using detail::timeline_scale;
using detail::trace_reading;
using detail::trace_span;
using detail::trace_stream;

constexpr double margin_px = 18;
constexpr double row_px = 38;
constexpr double bar_px = 24;
constexpr double device_px = 28;   // the line with a device's name
constexpr double heading_px = 34;  // the baseline of the title
constexpr double summary_px = 18;  // from the baseline of the title to that of the summary
constexpr double axis_px = 34;     // below the rows
constexpr double title_font = 17;
constexpr double font = 12;
constexpr double small_font = 11;
constexpr double least_bar_px = 1;  // so that short commands are seen
constexpr std::size_t many_arrows = 100;
constexpr double legend_room_px = 1200;  // a wider picture is fitted to the window by the script

// The row of a stream, in its full height.
struct timeline_row {
    const trace_stream* stream;
    double top_px;
    bool first_of_device;

    double bar_top_px() const noexcept { return top_px + (row_px - bar_px) / 2; }
};

double tick_room_px(std::string_view label) { return 1.5 * text_px(label, small_font) + 14; }

// Space for the streams' names and how busy they were, left of the rows.
double labels_px(std::span<const trace_stream> streams) {
    double widest_px = 0;
    for (const trace_stream& each : streams) widest_px = std::max(widest_px, text_px(each.name, font));
    return widest_px + 12 + text_px("100 % busy", small_font) + 10;
}

// As wide as requested. Without a request, wide enough that half of the commands have room for a short name.
double width_of(const timeline_options& options, const trace_reading& reading) {
    constexpr double least_px = 1200, most_px = 4800, short_name_px = 40;
    if (options.width_px != 0) return std::clamp(options.width_px, 480, 20'000);
    std::vector<double> durations_us;
    durations_us.reserve(reading.spans.size());
    for (const trace_span& each : reading.spans) durations_us.push_back(each.duration_us());
    if (durations_us.empty()) return least_px;
    const auto median_us = durations_us.begin() + static_cast<std::ptrdiff_t>(durations_us.size() / 2);
    std::ranges::nth_element(durations_us, median_us);
    const timeline_scale unit = detail::fit(reading.spans, 0, 1);
    const double wanted_px = short_name_px * (unit.end_us - unit.begin_us) / std::max(*median_us, 1e-9);
    return std::clamp(std::ceil(wanted_px), least_px, most_px);
}

std::vector<timeline_row> rows_of(std::span<const trace_stream> streams, double top_px) {
    std::vector<timeline_row> rows;
    for (const trace_stream& each : streams) {
        const bool first_of_device = rows.empty() || rows.back().stream->device != each.device;
        if (first_of_device) top_px += device_px;
        rows.push_back({&each, top_px, first_of_device});
        top_px += row_px;
    }
    return rows;
}

class timeline_picture {
public:
    timeline_picture(const trace& of, const timeline_options& options, std::ostream& to)
        : trace_(of),
          title_(options.title),
          reading_(detail::read_trace(of)),
          summary_(detail::summary(reading_)),
          width_px_(width_of(options, reading_)),
          scale_(detail::fit(reading_.spans, margin_px + labels_px(reading_.streams), width_px_ - margin_px - 4)),
          legend_(detail::legend_of(reading_, {margin_px, heading_bottom_px() + 26},
                                    std::min(width_px_, legend_room_px) - margin_px)),
          rows_(rows_of(reading_.streams, legend_.empty() ? heading_bottom_px() + 14 : legend_.back().at.y + 8)),
          bottom_px_(rows_.empty() ? heading_bottom_px() + 32 : rows_.back().top_px + row_px + 4),
          svg_(to) {}

    void write() {
        begin();
        heading();
        if (rows_.empty()) {
            svg_.text("muted", {width_px_ / 2, bottom_px_}, "Nothing was traced.", "middle");
        } else {
            legend();
            axis();
            for (const timeline_row& each : rows_) labels(each);
            along_time();
            svg_.markup(detail::timeline_script);
        }
        svg_.finish();
    }

private:
    void begin() {
        const double height_px = bottom_px_ + axis_px;
        svg_.markup("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice-timeline\" role=\"img\"");
        svg_.attribute("width", width_px_).attribute("height", height_px);
        // For the script: the times at the ends of the axis.
        svg_.attribute("data-left", scale_.left_px).attribute("data-right", scale_.right_px);
        svg_.markup(" data-begin-us=\"").markup(detail::exact(scale_.begin_us));
        svg_.markup("\" data-end-us=\"").markup(detail::exact(scale_.end_us)).markup("\"");
        std::string box = "0 0 ";
        detail::append_compact(box, width_px_, 0);
        detail::append_compact(box += ' ', height_px, 0);
        svg_.markup(" viewBox=\"").markup(box).markup("\" aria-label=\"");
        svg_.words(title_.empty() ? "Timeline" : title_).words(": ").words(summary_).markup("\">\n");
        svg_.markup(detail::timeline_style);
        svg_.rect("ground", {0.5, 0.5}, width_px_ - 1, height_px - 1, 8);
        svg_.markup("\n");
    }

    void heading() {
        const double room_px = width_px_ - 2 * margin_px;
        if (!title_.empty()) {
            svg_.text("title", {margin_px, heading_px}, detail::elided(title_, title_font, room_px));
        }
        svg_.text("muted", {margin_px, heading_bottom_px()}, detail::elided(summary_, small_font, room_px));
    }

    // The baseline of the summary.
    double heading_bottom_px() const noexcept { return title_.empty() ? heading_px : heading_px + summary_px; }

    void legend() {
        for (const auto& [look, label, at] : legend_) {
            if (look == "none") {
                svg_.text("muted", at, label);
                continue;
            }
            if (look == "wait") {
                svg_.curve("wait", {at.x, at.y - 8}, {at.x + 10, at.y - 3});
                svg_.arrow_head("tip", {at.x + 10, at.y + 1}, 1);
            } else {
                svg_.rect(look, {at.x, at.y - 10}, 12, 12, 3);
            }
            svg_.text("muted", {at.x + 18, at.y}, label);
        }
    }

    void axis() {
        for (const timeline_row& each : rows_) {
            svg_.rect("band", {scale_.left_px, each.top_px + 2}, scale_.right_px - scale_.left_px, row_px - 4, 4);
        }
        svg_.markup("<g class=\"ticks\"").attribute("data-top", rows_.front().top_px - 2);
        svg_.attribute("data-bottom", bottom_px_).markup(">");
        for (const auto& [us, label] : detail::ticks(scale_, tick_room_px)) {
            const double x = scale_.at(us);
            svg_.line("grid", {x, rows_.front().top_px - 2}, {x, bottom_px_});
            const bool at_edge = x + text_px(label, small_font) / 2 > width_px_ - 8;
            svg_.text("muted tick", {at_edge ? width_px_ - 8 : x, bottom_px_ + 17}, label, at_edge ? "end" : "middle");
        }
        svg_.end_group();
        svg_.line("axis", {scale_.left_px, bottom_px_}, {scale_.right_px, bottom_px_});
    }

    void labels(const timeline_row& row) {
        if (row.first_of_device) {
            const std::string name = detail::device_name(trace_, row.stream->device);
            svg_.text("device", {margin_px, row.top_px - 8},
                      detail::elided(name, font * 1.05, width_px_ - 2 * margin_px));
        }
        const double baseline_px = row.top_px + row_px / 2 + 4;
        svg_.text("stream", {margin_px, baseline_px}, row.stream->name);
        double busy_us = 0;
        for (const trace_span& span : spans_of(row)) busy_us += span.duration_us();
        std::string busy;
        detail::append_compact(busy, 100 * std::min(1.0, busy_us / (scale_.end_us - scale_.begin_us)), 0);
        svg_.text("muted", {scale_.left_px - 10, baseline_px}, busy.append(" % busy"), "end");
    }

    void along_time() {
        const double pane_px = scale_.right_px - scale_.left_px, height_px = bottom_px_ + axis_px;
        std::string box;
        detail::append_compact(box, scale_.left_px, 2);
        detail::append_compact(box += " 0 ", pane_px, 2);
        detail::append_compact(box += ' ', height_px, 2);
        svg_.markup("<svg class=\"pane\"").attribute("x", scale_.left_px).attribute("y", 0);
        svg_.attribute("width", pane_px).attribute("height", height_px);
        svg_.markup(" viewBox=\"").markup(box).markup("\">");
        svg_.begin_group("time");
        for (const timeline_row& each : rows_) bars(each);
        arrows();
        svg_.end_group();
        svg_.markup("</svg>\n");
    }

    void bars(const timeline_row& row) {
        const std::string place = detail::device_name(trace_, row.stream->device) + ", " + row.stream->name;
        svg_.begin_group("row");
        for (const timeline_bar& each : detail::merge_bars(spans_of(row), scale_.px_per_us())) {
            svg_.begin_group("bar");
            svg_.title(detail::tooltip(each, place));
            bar(each, row.bar_top_px());
            svg_.end_group();
        }
        svg_.end_group();
    }

    void bar(const timeline_bar& of, double top_px) {
        const svg_writer::point at{scale_.at(of.start_us), top_px};
        const double width_px = std::max(least_bar_px, (of.end_us - of.start_us) * scale_.px_per_us());
        const bool is_solid = detail::is_coloured_by_name(of.kind);
        const std::string look = css_class(of.kind) + (is_solid ? " n" + std::to_string(of.colour) : "");
        if (of.count > 1) {
            const double busy = of.busy_us / std::max({of.busy_us, of.end_us - of.start_us, 1e-9});
            svg_.rect(look + " thin", at, width_px, bar_px, 0, 0.25 + 0.75 * busy);
        } else if (width_px < 4) {
            svg_.rect(look + " thin", at, width_px, bar_px);
        } else {  // leaves a hairline before the next
            svg_.rect(look + (is_solid ? " solid" : " hollow"), at, width_px - 1, bar_px, std::min(3.0, width_px / 4));
            name(*of.first->event, at, width_px - 1);
        }
    }

    // The name, and after it the user's name of the operation, where they fit. A nested <svg> clips text that is wider
    // than estimated.
    void name(const trace_event& event, svg_writer::point at, double width_px) {
        constexpr double left_px = 6, right_px = 3;
        const double room_px = width_px - left_px - right_px;
        const std::string shown = detail::elided(event.name, small_font, room_px);
        if (shown.empty()) return;
        svg_.markup("<svg").attribute("x", at.x).attribute("y", at.y);
        svg_.attribute("width", width_px).attribute("height", bar_px).markup("><text class=\"name\"");
        svg_.attribute("x", left_px).attribute("y", 16).markup(">").words(shown);
        const double rest_px = room_px - text_px(event.name, small_font) - left_px;
        if (!event.operation.empty() && text_px(event.operation, small_font) <= rest_px) {
            svg_.markup("<tspan class=\"of\"").attribute("dx", left_px).markup(">").words(event.operation);
            svg_.markup("</tspan>");
        }
        svg_.markup("</text></svg>");
    }

    void arrows() {
        // Arrows that would lie on each other are drawn once.
        std::set<std::tuple<const timeline_row*, const timeline_row*, long, long>> drawn;
        svg_.begin_group(reading_.arrows.size() > many_arrows ? "arrows many" : "arrows");
        for (const auto& [from, to] : reading_.arrows) {
            const trace_span& awaited = reading_.spans[from];
            const trace_span& waiting = reading_.spans[to];
            const long from_cell = std::lround(scale_.at(awaited.end_us) / 2);
            const long to_cell = std::lround(scale_.at(waiting.start_us) / 2);
            if (!drawn.insert({&row_of(from), &row_of(to), from_cell, to_cell}).second) continue;
            arrow(awaited, row_of(from), waiting, row_of(to));
        }
        svg_.end_group();
    }

    void arrow(const trace_span& awaited, const timeline_row& from, const trace_span& waiting, const timeline_row& to) {
        const bool down = from.top_px < to.top_px;
        // Inside the corners of the bars; out of the middle of those that are narrow.
        const auto inset = [&](const trace_span& of) {
            return std::min(3.0, of.duration_us() * scale_.px_per_us() / 2);
        };
        const svg_writer::point begin{scale_.at(awaited.end_us) - inset(awaited) - 1,
                                      from.bar_top_px() + (down ? bar_px : 0)};
        const svg_writer::point end{scale_.at(waiting.start_us) + inset(waiting),
                                    to.bar_top_px() + (down ? 0 : bar_px)};
        const double direction = down ? 1 : -1;
        const svg_writer::point neck{end.x, end.y - 4 * direction};
        svg_.begin_group("arrow");
        svg_.title(detail::tooltip(awaited, from.stream->name, waiting, to.stream->name));
        svg_.curve("halo", begin, neck);
        svg_.curve("wait", begin, neck);
        svg_.arrow_head("tip", end, direction);
        svg_.end_group();
    }

    std::span<const trace_span> spans_of(const timeline_row& row) const {
        return std::span(reading_.spans).subspan(row.stream->first, row.stream->last - row.stream->first);
    }

    const timeline_row& row_of(std::size_t span) const {
        const auto first_span = [](const timeline_row& row) { return row.stream->first; };
        return *std::prev(std::ranges::upper_bound(rows_, span, {}, first_span));
    }

    const trace& trace_;
    const std::string title_;
    const trace_reading reading_;
    const std::string summary_;
    const double width_px_;
    const timeline_scale scale_;
    const std::vector<detail::legend_entry> legend_;
    const std::vector<timeline_row> rows_;
    const double bottom_px_;  // of the rows
    svg_writer svg_;
};

}  // namespace

void write_timeline(const trace& of, std::ostream& to, const timeline_options& options) {
    timeline_picture(of, options, to).write();
}

}  // namespace sluice
