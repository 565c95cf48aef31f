// SPDX-License-Identifier: Apache-2.0
// A picture of boxes and arrows: what comes from what, such as the nodes of a network.
//
//     flow_chart chart{.heading = "two layers"};
//     chart.boxes = {{.title = "input", .look = flow_look::source},
//                    {.title = "Gemm", .lines = {"fc1", "f32 [128, 64]"}, .after = {{0}}}};
//     write_flow_charts({&chart, 1}, out);
//
// A box has a title, lines of words below it, a tooltip, and may have boxes inside. Rows follow the longest path, from
// top to bottom; charts are drawn side by side. Words may hold anything: they are escaped, and cut where a box would
// become too wide. Tooltips have them whole.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// The colour of a box.
enum class flow_look : unsigned char { step, quiet, joined, source, sink };

// An arrow to a box.
struct flow_arrow {
    std::size_t from = 0;      // a box before, by its number
    std::string tooltip = {};  // of the arrow
};

struct flow_chart;

// A box of the chart.
struct flow_box {
    std::string title = {};                         // the first line
    std::vector<std::string> lines = {};            // below the title
    std::string tooltip = {};                       // of the box
    flow_look look = flow_look::step;               // its colour
    std::vector<flow_arrow> after = {};             // what comes before it
    std::shared_ptr<const flow_chart> inside = {};  // its heading is not shown
};

// One chart: boxes, in an order in which each arrow comes from an earlier box.
struct flow_chart {
    std::string heading = {};                                    // above the chart
    std::vector<flow_box> boxes = {};                            // numbered from 0
    std::vector<std::pair<flow_look, std::string>> legend = {};  // what the colours mean
};

// Writes a picture by itself (SVG), readable in light and in dark. Failures are left in the stream's state. Does not
// block; a thousand boxes cost some tens of milliseconds. Throws errc::invalid_argument, before it writes, for an arrow
// that does not come from a box before.
void write_flow_charts(std::span<const flow_chart> charts, std::ostream& to);

}  // namespace sluice
