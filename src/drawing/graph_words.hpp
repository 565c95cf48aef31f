// SPDX-License-Identifier: Apache-2.0
// What the nodes and edges of a graph say in its drawings, DOT and SVG alike. Plain text that may hold any name
// of the user's: the writers escape it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/runtime/command_graph.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::detail {

// Nothing for a condition or a loop.
std::optional<trace_kind> kind_of(const graph_node& node) noexcept;
// Its commands; null for other nodes, and where there are none.
const command_graph* body_of(const graph_node& node) noexcept;

// The following functions take the memory of the whole graph: bodies have no list of their own.
using memory_list = std::span<const graph_memory>;

// "kernel, 4 x 13 blocks of 32 x 8"; without the kind where the node is named so.
std::string what_of(const graph_node& node, memory_list memory);
// Several lines: all that is known of the node.
std::string node_tooltip(const graph_node& node, memory_list memory);

// "upload, 16 KiB"
std::string memory_text(std::uint32_t index, memory_list memory);
// "reads what was written"
std::string_view reason_text(edge_reason reason) noexcept;
// The same as one word: "read-after-write".
std::string_view reason_word(edge_reason reason) noexcept;
// Two lines: which command comes after which, over what memory and why.
std::string edge_tooltip(const command_graph& graph, const graph_node& later, const graph_edge& edge,
                         memory_list memory);

// "12 commands, 14 edges"; those in bodies count.
std::string graph_summary(const command_graph& graph);

}  // namespace sluice::detail
