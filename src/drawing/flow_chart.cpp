// SPDX-License-Identifier: Apache-2.0
// Draws flow charts, from top to bottom: a heading, a legend, the boxes. Arrows are drawn before boxes.
#include "sluice/drawing/flow_chart.hpp"

#include <algorithm>
#include <cstdint>
#include <ostream>

#include "drawing/graph_layout.hpp"
#include "drawing/graph_style.hpp"
#include "drawing/svg_writer.hpp"
#include "drawing/timeline_style.hpp"
#include "drawing/timeline_text.hpp"
#include "sluice/base/error.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::drawn_arrow;
using detail::drawn_box;
using detail::graph_layout;
using detail::layout_graph;
using detail::svg_writer;
using detail::text_px;

struct flow_sizes {
    static constexpr double margin_px = 22;
    static constexpr double between_px = 60;  // charts
    static constexpr double heading_px = 30;  // the baseline of the heading
    static constexpr double legend_px = 54;   // that of the legend
    static constexpr double top_px = 76;      // the boxes
    static constexpr double row_gap_px = 34;
    static constexpr double font = 12, small_font = 11;
    static constexpr double line_px = 16;
    static constexpr double inset_px = 12;
    static constexpr double least_box_px = 90, most_box_px = 340;
};
using sizes = flow_sizes;

// The classes of timeline_style that have the colours.
std::string_view class_of(flow_look look) noexcept {
    switch (look) {
        case flow_look::step: return "kernel";
        case flow_look::quiet: return "fill";
        case flow_look::joined: return "library-call";
        case flow_look::source: return "upload";
        case flow_look::sink: return "download";
    }
    return "kernel";
}

double height_of_words(const flow_box& box) { return static_cast<double>(1 + box.lines.size()) * sizes::line_px + 14; }

detail::drawing_size size_of(const flow_box& box) {
    double widest_px = 1.06 * text_px(box.title, sizes::font);  // bold
    for (const std::string& each : box.lines) widest_px = std::max(widest_px, text_px(each, sizes::small_font));
    return {std::clamp(widest_px + 2 * sizes::inset_px + 1, sizes::least_box_px, sizes::most_box_px),
            height_of_words(box)};
}

layout_graph layout_of(const flow_chart& chart) {
    layout_graph made;
    for (std::size_t i = 0; i < chart.boxes.size(); ++i) {
        const flow_box& box = chart.boxes[i];
        detail::layout_node next{size_of(box), {}};
        for (const flow_arrow& each : box.after) {
            if (each.from >= i) {
                throw error(errc::invalid_argument, "an arrow to box " + std::to_string(i) + " comes from box " +
                                                        std::to_string(each.from) + ", which is not before it");
            }
            next.after.push_back({static_cast<std::uint32_t>(each.from), 0});
        }
        if (box.inside != nullptr && !box.inside->boxes.empty())
            next.body = std::make_unique<const layout_graph>(layout_of(*box.inside));
        made.nodes.push_back(std::move(next));
    }
    return made;
}

double legend_width_px(const flow_chart& chart) {
    double px = 0;
    for (const auto& [look, words] : chart.legend) px += 18 + text_px(words, sizes::small_font) + 16;
    return px;
}

struct placed_chart {
    const flow_chart* chart;
    graph_layout layout;
    double width_px;  // with its heading and legend

    explicit placed_chart(const flow_chart& of)
        : chart(&of), layout(detail::lay_out(layout_of(of), sizes::row_gap_px)), width_px(layout.width) {
        width_px = std::max({width_px, text_px(of.heading, sizes::font), legend_width_px(of)});
    }
};

class flow_picture {
public:
    flow_picture(std::span<const flow_chart> charts, std::ostream& to) : svg_(to) {
        for (const flow_chart& each : charts) charts_.emplace_back(each);
        width_px_ = 2 * sizes::margin_px - sizes::between_px;
        for (const placed_chart& each : charts_) {
            width_px_ += each.width_px + sizes::between_px;
            height_px_ = std::max(height_px_, each.layout.height);
        }
        width_px_ = std::max(width_px_, 2 * sizes::margin_px + 200);
        height_px_ += sizes::top_px + sizes::margin_px;
    }

    void write() {
        begin();
        double left = sizes::margin_px;
        for (const placed_chart& each : charts_) {
            svg_.begin_group("chart");
            svg_.text("device", {left, sizes::heading_px}, each.chart->heading);
            legend(*each.chart, left);
            draw(*each.chart, each.layout, {left + (each.width_px - each.layout.width) / 2, sizes::top_px});
            svg_.end_group();
            left += each.width_px + sizes::between_px;
        }
        svg_.finish();
    }

private:
    void begin() {
        svg_.markup("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice-timeline sluice-graph\" role=\"img\"");
        svg_.attribute("width", width_px_).attribute("height", height_px_);
        std::string box = "0 0 ";
        detail::append_compact(box, width_px_, 2);
        detail::append_compact(box += ' ', height_px_, 2);
        svg_.markup(" viewBox=\"").markup(box).markup("\" aria-label=\"");
        if (!charts_.empty()) svg_.words(charts_.front().chart->heading);
        svg_.markup("\">\n").markup(detail::timeline_style).markup(detail::drawing_style);
        svg_.rect("ground", {0.5, 0.5}, width_px_ - 1, height_px_ - 1, 8);
        svg_.markup("\n");
    }

    void legend(const flow_chart& of, double left) {
        for (const auto& [look, words] : of.legend) {
            svg_.rect(class_of(look), {left, sizes::legend_px - 10}, 12, 12, 3);
            svg_.text("muted", {left + 18, sizes::legend_px}, words);
            left += 18 + text_px(words, sizes::small_font) + 16;
        }
    }

    void draw(const flow_chart& chart, const graph_layout& layout, svg_writer::point corner) {
        svg_.begin_group("arrows");
        for (const drawn_arrow& each : layout.arrows)
            arrow(chart.boxes[each.node].after[each.edge].tooltip, each, corner);
        svg_.end_group();
        for (std::size_t i = 0; i < chart.boxes.size(); ++i) box(chart.boxes[i], layout.boxes[i], corner);
    }

    void box(const flow_box& of, const drawn_box& placed, svg_writer::point corner) {
        const svg_writer::point at{corner.x + placed.x, corner.y + placed.y};
        const bool has_body = placed.body != nullptr;
        svg_.begin_group(has_body ? "box part" : "box");
        svg_.title(of.tooltip);
        svg_.rect(has_body ? "loop" : class_of(of.look), at, placed.width, placed.height, 6);
        svg_.markup("\n");
        const double room_px = placed.width - 2 * sizes::inset_px;
        svg_writer::point text{at.x + placed.width / 2, at.y + 19};
        svg_.text("user", text, detail::elided(of.title, 1.06 * sizes::font, room_px), "middle");
        for (const std::string& each : of.lines) {
            text.y += sizes::line_px;
            svg_.text("what", text, detail::elided(each, sizes::small_font, room_px), "middle");
        }
        if (has_body) draw(*of.inside, *placed.body, {corner.x + placed.body_x, corner.y + placed.body_y});
        svg_.end_group();
    }

    void arrow(const std::string& tooltip, const drawn_arrow& of, svg_writer::point corner) {
        const auto moved = [&](double x, double y) { return svg_writer::point{corner.x + x, corner.y + y}; };
        svg_.begin_group("arrow");
        svg_.title(tooltip);
        for (std::size_t i = 0; i < of.way.size(); ++i) {
            const auto& [x, top, bottom] = of.way[i];
            const double end = i + 1 == of.way.size() ? 5 : 0;  // the head's room
            if (i != 0) svg_.curve("line", moved(of.way[i - 1].x, of.way[i - 1].bottom), moved(x, top - end));
            if (bottom > top) svg_.line("line", moved(x, top - end), moved(x, bottom - end));
        }
        svg_.arrow_head("head", moved(of.way.back().x, of.way.back().bottom), 1);
        svg_.end_group();
    }

    std::vector<placed_chart> charts_;
    double width_px_ = 0, height_px_ = 0;
    svg_writer svg_;
};

}  // namespace

void write_flow_charts(std::span<const flow_chart> charts, std::ostream& to) { flow_picture(charts, to).write(); }

}  // namespace sluice
