// SPDX-License-Identifier: Apache-2.0
#include "sluice/drawing/graph_drawing.hpp"

#include <ostream>

#include "sluice/base/error.hpp"
#include "sluice/io/write_file.hpp"

namespace sluice {

void save_graph(const command_graph& graph, const std::filesystem::path& file) {
    const std::filesystem::path kind = file.extension();
    if (kind != ".dot" && kind != ".svg") {
        throw error(errc::invalid_argument,
                    "a graph is drawn as .dot or .svg; " + file.filename().string() + " is neither", {"save_graph"});
    }
    const std::string drawn = kind == ".dot" ? to_dot(graph) : to_svg(graph);
    io::write_file(file, [&](std::ostream& to) { to.write(drawn.data(), static_cast<std::streamsize>(drawn.size())); });
}

}  // namespace sluice
