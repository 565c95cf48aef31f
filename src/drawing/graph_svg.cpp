// SPDX-License-Identifier: Apache-2.0
// Draws a graph as SVG: a summary line, the legend, then the graph from top to bottom. Arrows are drawn first, then
// their words, then the boxes. The words of an arrow are left out where others are already; its tooltip always has
// them.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "drawing/command_layout.hpp"
#include "drawing/graph_layout.hpp"
#include "drawing/graph_style.hpp"
#include "drawing/graph_words.hpp"
#include "drawing/svg_writer.hpp"
#include "drawing/timeline_style.hpp"
#include "drawing/timeline_text.hpp"
#include "sluice/drawing/graph_drawing.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::drawn_arrow;
using detail::drawn_box;
using detail::drawn_vertical;
using detail::graph_layout;
using detail::memory_list;
using detail::svg_writer;
using detail::text_px;

constexpr double margin_px = 22;
constexpr double heading_px = 30;  // the baseline of the summary
constexpr double legend_px = 20;   // a line of the legend
constexpr double font = 12;
constexpr double small_font = 11;
constexpr double line_px = 16;  // of a box's words
constexpr double least_box_px = 170;
constexpr double most_box_px = 380;
constexpr double inset_px = 12;  // of a box's words
constexpr double least_width_px = 360;
constexpr double arrow_words_px = 185;
constexpr double words_px = 29;  // high, at an arrow

std::string arrow_class(edge_reason reason, bool early) {
    return "arrow " + std::string(detail::reason_word(reason)) + (early ? " early" : "");
}

struct legend_entry {
    std::string look;  // a CSS class
    std::string label;
    bool is_arrow;
    svg_writer::point at;
};

// Which kinds of nodes and edges there are.
struct what_is_there {
    std::set<trace_kind> kinds;
    std::set<edge_reason> reasons;
    bool parts = false;
    bool early = false;

    void look_at(const command_graph& graph) {
        for (const graph_node& node : graph.nodes) {
            if (const auto kind = detail::kind_of(node)) {
                kinds.insert(*kind);
            } else {
                parts = true;
            }
            for (const graph_edge& edge : node.after) {
                reasons.insert(edge.reason);
                early = early || edge.is_programmatic;
            }
            if (const command_graph* const body = detail::body_of(node)) look_at(*body);
        }
    }
};

std::vector<legend_entry> legend_of(const command_graph& graph, double width_px) {
    what_is_there seen;
    seen.look_at(graph);
    std::vector<legend_entry> legend;
    svg_writer::point at{margin_px, heading_px + legend_px + 4};
    const auto add = [&](std::string look, std::string_view label, bool is_arrow) {
        const double entry_px = (is_arrow ? 34 : 18) + text_px(label, small_font);
        if (at.x + entry_px > width_px - margin_px && at.x > margin_px) at = {margin_px, at.y + legend_px};
        legend.push_back({std::move(look), std::string(label), is_arrow, at});
        at.x += entry_px + 16;
    };
    for (const trace_kind kind : seen.kinds) add(detail::css_class(kind), to_string(kind), false);
    if (seen.parts) add("part", "condition or loop", false);
    for (const edge_reason reason : seen.reasons) add(arrow_class(reason, false), detail::reason_text(reason), true);
    if (seen.early) add("arrow early", "may start before that has ended", true);
    return legend;
}

// Where words are at arrows: their ends, and their middle from top to bottom.
struct taken_place {
    double left, right, y;
};

bool overlap(const taken_place& a, const taken_place& b) {
    return a.left < b.right && b.left < a.right && std::abs(a.y - b.y) < words_px;
}

// How far across and down svg_writer's curve has come after a part of it.
std::pair<double, double> on_curve(double part) {
    const double rest = 1 - part;
    const double first = 3 * rest * rest * part, second = 3 * rest * part * part, end = part * part * part;
    return {second + end, 0.6 * first + 0.4 * second + end};
}

// A curve of an arrow between two rows.
struct drawn_curve {
    const drawn_arrow* of;
    svg_writer::point from, to;

    // Whether it goes through the inside of a place, which may be touched.
    bool crosses(const taken_place& place) const {
        constexpr double touch_px = 12;
        constexpr int steps = 24;
        for (int step = 0; step <= steps; ++step) {
            const auto [along_x, along_y] = on_curve(static_cast<double>(step) / steps);
            const double x = from.x + along_x * (to.x - from.x), y = from.y + along_y * (to.y - from.y);
            if (x > place.left + touch_px && x < place.right - touch_px && std::abs(y - place.y) < words_px / 2)
                return true;
        }
        return false;
    }
};
constexpr std::size_t most_curves = 200;  // between two rows with words at arrows

class graph_picture {
public:
    graph_picture(const command_graph& graph, std::ostream& to)
        : graph_(graph),
          memory_(graph.memory),
          summary_(detail::graph_summary(graph)),
          layout_(detail::lay_out(detail::to_layout(graph, [this](const graph_node& node) { return size_of(node); }))),
          width_px_(std::max(layout_.width + 2 * margin_px, least_width_px)),
          legend_(legend_of(graph, width_px_)),
          top_px_(legend_.empty() ? heading_px + 30 : legend_.back().at.y + 28),
          svg_(to) {}

    void write() {
        begin();
        svg_.text("muted", {margin_px, heading_px}, summary_);
        if (graph_.nodes.empty()) {
            svg_.text("muted", {width_px_ / 2, top_px_ + 4}, "There is nothing in it.", "middle");
        } else {
            legend();
            draw(graph_, layout_, {(width_px_ - layout_.width) / 2, top_px_});
        }
        svg_.finish();
    }

private:
    detail::drawing_size size_of(const graph_node& node) const {
        double widest_px = text_px(node.name, font);
        widest_px = std::max(widest_px, 1.06 * text_px(node.operation, font));  // bold
        widest_px = std::max(widest_px, text_px(detail::what_of(node, memory_), small_font));
        const double lines = node.operation.empty() ? 2 : 3;
        return {std::clamp(widest_px + 2 * inset_px + 1, least_box_px, most_box_px), lines * line_px + 14};
    }

    void begin() {
        const double height_px = top_px_ + (graph_.nodes.empty() ? 0 : layout_.height) + margin_px;
        svg_.markup("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice-timeline sluice-graph\" role=\"img\"");
        svg_.attribute("width", width_px_).attribute("height", height_px);
        std::string box = "0 0 ";
        detail::append_compact(box, width_px_, 2);
        detail::append_compact(box += ' ', height_px, 2);
        svg_.markup(" viewBox=\"").markup(box).markup("\" aria-label=\"Graph: ").words(summary_).markup("\">\n");
        svg_.markup(detail::timeline_style).markup(detail::drawing_style);
        svg_.rect("ground", {0.5, 0.5}, width_px_ - 1, height_px - 1, 8);
        svg_.markup("\n");
    }

    void legend() {
        for (const auto& [look, label, is_arrow, at] : legend_) {
            svg_.begin_group(look);
            if (is_arrow) {
                svg_.line("line", {at.x, at.y - 4}, {at.x + 26, at.y - 4});
            } else {
                svg_.rect(look, {at.x, at.y - 10}, 12, 12, 3);
            }
            svg_.end_group();
            svg_.text("muted", {at.x + (is_arrow ? 34 : 18), at.y}, label);
        }
    }

    void draw(const command_graph& graph, const graph_layout& layout, svg_writer::point corner) {
        svg_.begin_group("arrows");
        for (const drawn_arrow& each : layout.arrows) arrow(graph, each, corner);
        std::vector<std::size_t> leaving(graph.nodes.size());
        for (const drawn_arrow& each : layout.arrows) ++leaving[edge_of(graph, each).from];
        // By where they end: the curves of the rows above there, and the words that are there already.
        std::map<long, gap> gaps;
        for (const drawn_arrow& each : layout.arrows) {
            for (std::size_t i = 1; i < each.way.size(); ++i) {
                const drawn_vertical &from = each.way[i - 1], &to = each.way[i];
                gaps[std::lround(to.top)].curves.push_back(
                    {&each, {corner.x + from.x, corner.y + from.bottom}, {corner.x + to.x, corner.y + to.top}});
            }
        }
        for (const drawn_arrow& each : layout.arrows) {
            const bool is_one_of_many = graph.nodes[each.node].after.size() > 1;
            const bool is_one_from_many = leaving[edge_of(graph, each).from] > 1;
            words(each, edge_of(graph, each), corner, layout.width,
                  is_one_of_many     ? 0.25
                  : is_one_from_many ? 0.75
                                     : 0.5,
                  gaps[std::lround(each.way.back().top)]);
        }
        svg_.end_group();
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) node(graph.nodes[i], layout.boxes[i], corner);
    }

    void node(const graph_node& of, const drawn_box& box, svg_writer::point corner) {
        const auto kind = detail::kind_of(of);
        const svg_writer::point at{corner.x + box.x, corner.y + box.y};
        svg_.begin_group(kind ? "box" : "box part");
        svg_.title(detail::node_tooltip(of, memory_));
        svg_.rect(kind ? detail::css_class(*kind) : "loop", at, box.width, box.height, 6);
        svg_.markup("\n");
        const double room_px = box.width - 2 * inset_px;
        svg_writer::point text{at.x + box.width / 2, at.y + 19};
        if (!of.operation.empty()) {
            svg_.text("user", text, detail::elided(of.operation, 1.06 * font, room_px), "middle");
            text.y += line_px;
        }
        svg_.text("command", text, detail::elided(of.name, font, room_px), "middle");
        text.y += line_px;
        svg_.text("what", text, detail::elided(detail::what_of(of, memory_), small_font, room_px), "middle");
        if (const command_graph* const body = detail::body_of(of))
            draw(*body, *box.body, {corner.x + box.body_x, corner.y + box.body_y});
        svg_.end_group();
    }

    void arrow(const command_graph& graph, const drawn_arrow& of, svg_writer::point corner) {
        const auto moved = [&](double x, double y) { return svg_writer::point{corner.x + x, corner.y + y}; };
        const graph_edge& edge = edge_of(graph, of);
        svg_.begin_group(arrow_class(edge.reason, edge.is_programmatic));
        svg_.title(detail::edge_tooltip(graph, graph.nodes[of.node], edge, memory_));
        for (std::size_t i = 0; i < of.way.size(); ++i) {
            const auto& [x, top, bottom] = of.way[i];
            const bool is_last = i + 1 == of.way.size();
            if (i != 0)
                svg_.curve("line", moved(of.way[i - 1].x, of.way[i - 1].bottom), moved(x, top - (is_last ? 5 : 0)));
            if (bottom > top)
                svg_.line("line", moved(x, top - (is_last ? 5 : 0)), moved(x, bottom - (is_last ? 5 : 0)));
        }
        svg_.arrow_head("head", moved(of.way.back().x, of.way.back().bottom), 1);
        svg_.end_group();
    }

    static const graph_edge& edge_of(const command_graph& graph, const drawn_arrow& of) {
        return graph.nodes[of.node].after[of.edge];
    }

    struct gap {
        std::vector<drawn_curve> curves;
        std::vector<taken_place> words;
    };

    // Two lines at an arrow's last curve: over what, and why. Where they hide no other arrow, if there is such a place,
    // and not beyond the layout's edges.
    void words(const drawn_arrow& of, const graph_edge& edge, svg_writer::point corner, double layout_px,
               double best_part, gap& here) {
        if (here.curves.size() > most_curves) return;
        const std::string over = detail::elided(detail::memory_text(edge.memory, memory_), small_font, arrow_words_px);
        const std::string_view why = detail::reason_text(edge.reason);
        const double half_px = std::max(text_px(over, small_font), text_px(why, small_font)) / 2;
        const drawn_vertical &from = of.way[of.way.size() - 2], &to = of.way.back();
        for (const double part : {best_part, 0.25, 0.5, 0.75}) {
            const auto [along_x, along_y] = on_curve(part);
            const double middle = std::clamp(from.x + along_x * (to.x - from.x), std::min(half_px, layout_px / 2),
                                             std::max(layout_px - half_px, layout_px / 2));
            const svg_writer::point at{corner.x + middle, corner.y + from.bottom + along_y * (to.top - from.bottom)};
            const taken_place place{at.x - half_px, at.x + half_px, at.y};
            if (std::ranges::any_of(here.words, [&](const auto& other) { return overlap(place, other); })) continue;
            if (std::ranges::any_of(here.curves,
                                    [&](const auto& other) { return other.of != &of && other.crosses(place); }))
                continue;
            here.words.push_back(place);
            svg_.begin_group("words " + std::string(detail::reason_word(edge.reason)));
            svg_.rect("plate", {at.x - half_px, at.y - words_px / 2}, 2 * half_px, words_px);
            svg_.markup("\n");
            svg_.text("over", {at.x, at.y - 4}, over, "middle");
            svg_.text("why", {at.x, at.y + 9}, why, "middle");
            svg_.end_group();
            return;
        }
    }

    const command_graph& graph_;
    const memory_list memory_;
    const std::string summary_;
    const graph_layout layout_;
    const double width_px_;
    const std::vector<legend_entry> legend_;
    const double top_px_;
    svg_writer svg_;
};

}  // namespace

std::string to_svg(const command_graph& graph) {
    std::ostringstream text;
    graph_picture(graph, text).write();
    return std::move(text).str();
}

}  // namespace sluice
