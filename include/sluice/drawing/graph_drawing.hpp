// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a picture: its commands with their names and sizes, its edges with their reasons.
//
//     save_graph(fast.commands(), "graph.svg");      // or "graph.dot", for Graphviz
//
// Each box is a command: the user's name for it (named), its own name, its kind, and what it moves or runs over. Each
// arrow says over which memory one command comes after another, and why: "reads what was written", "overwrites what was
// read", "overwrites what was written"; dashed, it may start before the other has ended. Bodies of conditions and loops
// are boxes within. In the picture, rows follow the longest path; tooltips have the rest: what a command reads and
// writes, its source line, and the reasons of arrows that are too close to each other for words.
//
// Names may hold anything. Does not block; a thousand commands take some tens of milliseconds.
#pragma once

#include <filesystem>
#include <string>

#include "sluice/runtime/command_graph.hpp"

namespace sluice {

// For Graphviz. Costs O(bytes of the text).
std::string to_dot(const command_graph& graph);
// A picture by itself, readable in light and in dark. Costs O(n log n) in the number of commands and edges.
std::string to_svg(const command_graph& graph);
// One or the other, by the file's extension (.dot, .svg). Throws errc::invalid_argument for another one,
// errc::io_failed when the file cannot be written. Costs what to_dot or to_svg costs, and the write of the file.
void save_graph(const command_graph& graph, const std::filesystem::path& file);

}  // namespace sluice
