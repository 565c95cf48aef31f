// SPDX-License-Identifier: Apache-2.0
// Places the boxes and arrows of a graph's picture. Layered: a node's rank is the length of the longest path to it, but
// one that comes after nothing is just above what needs it first. Ranks are rows; in a row, nodes are in the order of
// the mean of their parents' places. Edges over several rows pass between the boxes of those in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::detail {

struct drawing_size {
    double width;
    double height;
};

// What is to be placed.
struct layout_graph;
struct layout_edge {
    std::uint32_t from;   // an earlier node
    std::uint32_t trunk;  // edges out of one node with the same number share their way as far as it goes
};
struct layout_node {
    drawing_size words;              // how large its box must be for its words
    std::vector<layout_edge> after;  // the nodes that come before it
    std::unique_ptr<const layout_graph> body = {};
};
struct layout_graph {
    std::vector<layout_node> nodes;  // every edge leads from an earlier node to a later one
};

struct graph_layout;

struct drawn_box {
    double x, y;  // of its left upper corner
    double width, height;
    // Of a node with a body, below its words: the body, and where its corner is.
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
    std::uint32_t node;               // that comes later
    std::size_t edge;                 // of the node: an index into layout_node::after
    std::vector<drawn_vertical> way;  // at least two; the last ends at the node
};

struct graph_layout {
    double width = 0, height = 0;
    std::vector<drawn_box> boxes;  // by node
    std::vector<drawn_arrow> arrows;
};

// `row_gap_px` is between rows; the default has room for two lines of words at an arrow.
graph_layout lay_out(const layout_graph& graph, double row_gap_px = 66);

}  // namespace sluice::detail
