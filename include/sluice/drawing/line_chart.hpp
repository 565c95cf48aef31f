// SPDX-License-Identifier: Apache-2.0
// Line charts of measurements: both axes are logarithmic, and the x axis has a tick for each value that was measured.
//
//     line_chart chart{.title = "Latency", .x_label = "batch (rows)", .y_label = "time of a call (µs)"};
//     chart.series.push_back({.name = "cpu:0", .points = {{1, 5.2, 6.0}, {8, 9.1, 12.5}}});
//     write_line_charts("digits.onnx", {&chart, 1}, out);
//
// Charts are drawn side by side, each with its legend below. Words may hold anything: they are escaped.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

// One measurement.
struct chart_point {
    double x = 0, y = 0;               // by the chart's axes
    std::optional<double> up_to = {};  // a thin line from y to there
};

// One line of a chart.
struct chart_series {
    std::string name = {};                 // in the legend
    std::vector<chart_point> points = {};  // in order of x
    std::size_t colour = 0;                // of eight; larger numbers begin again
    bool is_dashed = false;                // the line is dashed
};

// One chart, with axes of its own.
struct line_chart {
    std::string title = {};                  // above the chart
    std::string x_label = {}, y_label = {};  // with units
    std::vector<chart_series> series = {};   // in the order of the legend
};

// Writes a picture by itself (SVG), on a light ground, or on a dark one for a reader who prefers that. Points with a
// coordinate that is not between 1e-200 and 1e200 are left out. Failures are left in the stream's state. Costs
// O(points).
void write_line_charts(const std::string& title, std::span<const line_chart> charts, std::ostream& to);

}  // namespace sluice
