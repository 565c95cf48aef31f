// SPDX-License-Identifier: Apache-2.0
// Places the boxes and arrows of a graph's picture. Layered: a node's rank is the length of the longest path to it,
// ranks are rows; in a row, nodes are in the order of the mean of their parents' places. Edges over several rows pass
// between the boxes of those in between; edges out of one node for the same reason share their way as far as it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/runtime/command_graph.hpp"

namespace sluice::detail {

struct drawing_size {
    double width;
    double height;
};

struct graph_layout;

struct drawn_box {
    double x, y;  // of its left upper corner
    double width, height;
    // Of a condition or loop, below its words: the body, and where its corner is.
    std::unique_ptr<graph_layout> body;
    double body_x, body_y;

    double center() const noexcept { return x + width / 2; }
    double bottom() const noexcept { return y + height; }
};

// An arrow consists of vertical lines, with a curve from the end of each to the next.
struct drawn_vertical {
    double x;
    double top, bottom;
};

struct drawn_arrow {
    std::uint32_t node;  // that comes later
    const graph_edge* edge;
    std::vector<drawn_vertical> way;  // at least two; the last ends at the node
};

struct graph_layout {
    double width = 0, height = 0;
    std::vector<drawn_box> boxes;  // by node
    std::vector<drawn_arrow> arrows;
};

// `size_of` returns how large a box must be for its words. Points into the graph, which must outlive it.
graph_layout lay_out(const command_graph& graph, const std::function<drawing_size(const graph_node&)>& size_of);

}  // namespace sluice::detail
