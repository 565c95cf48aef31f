// SPDX-License-Identifier: Apache-2.0
#include "drawing/command_layout.hpp"

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "drawing/graph_words.hpp"

namespace sluice::detail {

layout_graph to_layout(const command_graph& graph, const std::function<drawing_size(const graph_node&)>& size_of) {
    std::map<std::tuple<std::uint32_t, edge_reason, bool>, std::uint32_t> trunks;
    layout_graph made;
    for (const graph_node& node : graph.nodes) {
        layout_node next{size_of(node), {}};
        for (const graph_edge& edge : node.after) {
            const auto number = static_cast<std::uint32_t>(trunks.size());
            const auto trunk = trunks.try_emplace({edge.memory, edge.reason, edge.is_programmatic}, number).first;
            next.after.push_back({edge.from, trunk->second});
        }
        if (const command_graph* const body = body_of(node))
            next.body = std::make_unique<const layout_graph>(to_layout(*body, size_of));
        made.nodes.push_back(std::move(next));
    }
    return made;
}

}  // namespace sluice::detail
