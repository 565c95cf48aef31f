#include "sluice/graph/graph_drawing.hpp"

#include <ostream>

#include "runtime/write_file.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {

void save_graph(const command_graph& graph, const std::filesystem::path& file) {
    const std::filesystem::path kind = file.extension();
    if (kind != ".dot" && kind != ".svg") {
        throw error(errc::invalid_argument,
                    "a graph is drawn as .dot or .svg; " + file.filename().string() + " is neither", {"save_graph"});
    }
    const std::string drawn = kind == ".dot" ? to_dot(graph) : to_svg(graph);
    detail::write_file(file,
                       [&](std::ostream& to) { to.write(drawn.data(), static_cast<std::streamsize>(drawn.size())); });
}

}  // namespace sluice
