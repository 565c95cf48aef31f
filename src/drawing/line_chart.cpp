// SPDX-License-Identifier: Apache-2.0
#include "sluice/drawing/line_chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <set>
#include <string_view>

#include "drawing/svg_writer.hpp"
#include "drawing/timeline_text.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::svg_writer;

constexpr std::string_view chart_style = R"(<style>
.sluice-chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;font-size:12px;fill:#1f2937}
.sluice-chart .ground{fill:#ffffff;stroke:#d5dce5}
.sluice-chart .title{font-size:16px;font-weight:600;fill:#0f172a}
.sluice-chart .heading{font-weight:600}
.sluice-chart .muted{font-size:11px;fill:#5b6879}
.sluice-chart .grid{stroke:#e5eaf0}
.sluice-chart .axis{stroke:#94a3b8}
.sluice-chart .series line{stroke:currentColor;stroke-width:2}
.sluice-chart .series .spread{stroke-width:1;stroke-opacity:.7}
.sluice-chart .dashed .step{stroke-dasharray:6 4}
.sluice-chart .dot{fill:currentColor;stroke:#ffffff}
.sluice-chart .c0{color:#0072b2}
.sluice-chart .c1{color:#d55e00}
.sluice-chart .c2{color:#00795a}
.sluice-chart .c3{color:#aa4499}
.sluice-chart .c4{color:#8a6d00}
.sluice-chart .c5{color:#56606b}
.sluice-chart .c6{color:#b91c1c}
.sluice-chart .c7{color:#6d28d9}
@media (prefers-color-scheme:dark){.sluice-chart text{fill:#e6edf3}
.sluice-chart .ground{fill:#0d1117;stroke:#30363d}
.sluice-chart .title{fill:#e6edf3}
.sluice-chart .muted{fill:#9aa7b4}
.sluice-chart .grid{stroke:#21262d}
.sluice-chart .axis{stroke:#6e7681}
.sluice-chart .dot{stroke:#0d1117}
.sluice-chart .c0{color:#58a6ff}
.sluice-chart .c1{color:#ff9a5c}
.sluice-chart .c2{color:#3fb68b}
.sluice-chart .c3{color:#e08ae8}
.sluice-chart .c4{color:#d4b106}
.sluice-chart .c5{color:#9ca3af}
.sluice-chart .c6{color:#ff7b72}
.sluice-chart .c7{color:#b794f6}}
</style>
)";

struct chart_sizes {
    static constexpr double margin_px = 22, plot_width_px = 400, plot_height_px = 280;
    static constexpr double left_px = 70;    // from a chart's edge to its plot: the labels of the y axis
    static constexpr double top_px = 84;     // from the picture's edge to the plots
    static constexpr double below_px = 58;   // from a plot to its legend
    static constexpr double legend_px = 19;  // a line of the legend
    static constexpr double chart_width_px = left_px + plot_width_px + 20;
    static constexpr double small_font = 11;
};
using chart = chart_sizes;

bool is_shown(const chart_point& point) {
    const auto is_usual = [](double number) { return number > 1e-200 && number < 1e200; };
    return is_usual(point.x) && is_usual(point.y);
}

// "0.5", "20", "3,000,000"
std::string label_of(double number) {
    if (number >= 1000 && number < 1e15) return detail::count_text(static_cast<std::uint64_t>(std::llround(number)));
    return detail::exact(number);
}

// From the logarithm of a number to pixels.
struct log_scale {
    double low = 0, high = 1;
    double from_px = 0, to_px = 0;

    double at(double number) const {
        return from_px + (std::log(number) - std::log(low)) / (std::log(high) - std::log(low)) * (to_px - from_px);
    }
};

// 1, 2, 5, 10 ... around the numbers; whole decades where they span many.
std::vector<double> round_numbers(double low, double high) {
    const bool is_wide = high / low > 1000;
    std::vector<double> made;
    for (int decade = static_cast<int>(std::floor(std::log10(low))); made.empty() || made.back() < high; ++decade) {
        for (const double step : {1.0, 2.0, 5.0}) {
            if (is_wide && step > 1) continue;
            const double number = step * std::pow(10.0, decade);
            if (!made.empty() && made.back() >= high) break;
            if (number <= low) made.clear();  // the last that is not above all of them
            made.push_back(number);
        }
    }
    return made;
}

class chart_picture {
public:
    chart_picture(const std::string& title, std::span<const line_chart> charts, std::ostream& to)
        : title_(title), charts_(charts), svg_(to) {
        std::size_t lines = 0;
        for (const line_chart& each : charts) lines = std::max(lines, each.series.size());
        width_px_ =
            2 * chart::margin_px + chart::chart_width_px * static_cast<double>(std::max<std::size_t>(1, charts.size()));
        height_px_ = chart::top_px + chart::plot_height_px + chart::below_px +
                     chart::legend_px * static_cast<double>(lines) + chart::margin_px;
    }

    void write() {
        svg_.markup("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice-chart\" role=\"img\"");
        svg_.attribute("width", width_px_).attribute("height", height_px_);
        std::string box = "0 0 ";
        detail::append_compact(box, width_px_, 2);
        detail::append_compact(box += ' ', height_px_, 2);
        svg_.markup(" viewBox=\"").markup(box).markup("\" aria-label=\"").words(title_).markup("\">\n");
        svg_.markup(chart_style);
        svg_.rect("ground", {0.5, 0.5}, width_px_ - 1, height_px_ - 1, 8);
        svg_.text("title", {chart::margin_px, 34}, detail::elided(title_, 16, width_px_ - 2 * chart::margin_px));
        for (std::size_t i = 0; i < charts_.size(); ++i)
            draw(charts_[i], chart::margin_px + chart::chart_width_px * static_cast<double>(i));
        svg_.finish();
    }

private:
    void draw(const line_chart& of, double left) {
        const double plot_left = left + chart::left_px, bottom = chart::top_px + chart::plot_height_px;
        svg_.begin_group("chart");
        svg_.text("heading", {left, chart::top_px - 16}, of.title);
        std::set<double> xs;
        double low = std::numeric_limits<double>::max(), high = 0;
        for (const chart_series& series : of.series) {
            for (const chart_point& each : series.points) {
                if (!is_shown(each)) continue;
                xs.insert(each.x);
                low = std::min(low, each.y);
                high = std::max({high, each.y, spread_of(each)});
            }
        }
        if (xs.empty()) {
            svg_.text("muted", {plot_left + chart::plot_width_px / 2, bottom - chart::plot_height_px / 2},
                      "There is nothing in it.", "middle");
            svg_.end_group();
            return;
        }
        log_scale x{*xs.begin(), *xs.rbegin(), plot_left + 24, plot_left + chart::plot_width_px - 24};
        if (x.low == x.high) x = {x.low / 2, x.high * 2, x.from_px, x.to_px};
        const std::vector<double> numbers = round_numbers(low, high);
        log_scale y{numbers.front(), numbers.back(), bottom, chart::top_px};
        if (y.low == y.high) y.high = 10 * y.low;
        axes(of, {xs.begin(), xs.end()}, numbers, x, y);
        for (const chart_series& each : of.series) draw(each, x, y);
        legend(of, plot_left, bottom + chart::below_px);
        svg_.end_group();
    }

    static double spread_of(const chart_point& point) {
        return point.up_to && is_shown({point.x, *point.up_to}) ? *point.up_to : point.y;
    }

    void axes(const line_chart& of, const std::vector<double>& xs, const std::vector<double>& ys, const log_scale& x,
              const log_scale& y) {
        const double left = x.from_px - 24, right = left + chart::plot_width_px;
        for (const double each : ys) {
            svg_.line("grid", {left, y.at(each)}, {right, y.at(each)});
            svg_.text("muted", {left - 8, y.at(each) + 4}, label_of(each), "end");
        }
        svg_.line("axis", {left, y.from_px}, {right, y.from_px});
        double free_from = left;
        for (const double each : xs) {
            svg_.line("axis", {x.at(each), y.from_px}, {x.at(each), y.from_px + 4});
            const std::string label = label_of(each);
            const double half_px = detail::text_px(label, chart::small_font) / 2;
            if (x.at(each) - half_px < free_from) continue;
            svg_.text("muted", {x.at(each), y.from_px + 17}, label, "middle");
            free_from = x.at(each) + half_px + 4;
        }
        svg_.text("muted", {(left + right) / 2, y.from_px + 36}, of.x_label, "middle");
        svg_.text("muted", {left, chart::top_px - 6 + 2}, of.y_label, "start");
    }

    void draw(const chart_series& series, const log_scale& x, const log_scale& y) {
        svg_.begin_group(classes_of(series));
        svg_.title(series.name);
        const chart_point* before = nullptr;
        for (const chart_point& each : series.points) {
            if (!is_shown(each)) continue;
            const svg_writer::point at{x.at(each.x), y.at(each.y)};
            if (before != nullptr) svg_.line("step", {x.at(before->x), y.at(before->y)}, at);
            if (spread_of(each) > each.y) {
                const double top = y.at(spread_of(each));
                svg_.line("spread", at, {at.x, top});
                svg_.line("spread", {at.x - 4, top}, {at.x + 4, top});
            }
            before = &each;
        }
        for (const chart_point& each : series.points)
            if (is_shown(each)) svg_.rect("dot", {x.at(each.x) - 4, y.at(each.y) - 4}, 8, 8, 4);
        svg_.end_group();
    }

    static std::string classes_of(const chart_series& series) {
        return "series c" + std::to_string(series.colour % 8) + (series.is_dashed ? " dashed" : "");
    }

    void legend(const line_chart& of, double left, double top) {
        for (const chart_series& each : of.series) {
            svg_.begin_group(classes_of(each));
            svg_.line("step", {left, top - 4}, {left + 28, top - 4});
            svg_.rect("dot", {left + 10, top - 8}, 8, 8, 4);
            svg_.end_group();
            svg_.text("name", {left + 36, top}, detail::elided(each.name, 12, chart::plot_width_px - 36));
            top += chart::legend_px;
        }
    }

    const std::string& title_;
    const std::span<const line_chart> charts_;
    double width_px_ = 0, height_px_ = 0;
    svg_writer svg_;
};

}  // namespace

void write_line_charts(const std::string& title, std::span<const line_chart> charts, std::ostream& to) {
    chart_picture(title, charts, to).write();
}

}  // namespace sluice
