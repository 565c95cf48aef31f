// SPDX-License-Identifier: Apache-2.0
// What a compiled graph can be asked to do besides launches and updates: to enable and disable nodes, and to upload.
#include <algorithm>
#include <variant>

#include "graph/graph_instance.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/graph/compiled_graph.hpp"

namespace sluice::detail {

// The numbers are the same in all replicas.
std::vector<std::size_t> compiled_graph::nodes_named(std::string_view name) const {
    std::vector<std::size_t> numbers;
    const std::vector<graph_node>& nodes = commands().nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].operation == name || nodes[i].name == name) numbers.push_back(i);
    }
    if (numbers.empty()) {
        throw error(errc::graph_refused, "the graph has no node named " + in_quotes(name),
                    {options_.name, device_.name(), location_});
    }
    return numbers;
}

void compiled_graph::set_enabled(std::string_view name, bool enabled) {
    const std::vector<std::size_t> numbers = nodes_named(name);
    for (const std::size_t number : numbers) {
        const graph_node& node = commands().nodes[number];
        const bool can_be = std::holds_alternative<copy_command>(node.what) ||
                            std::holds_alternative<fill_command>(node.what) ||
                            std::holds_alternative<launch_command>(node.what);
        if (!can_be) {
            throw error(errc::graph_refused, "only copies, fills and kernels can be disabled",
                        {node.name, device_.name(), node.location});
        }
    }
    for (const auto& each : instances_) {
        for (const std::size_t number : numbers) each->program->set_enabled(number, enabled);
    }
}

bool compiled_graph::is_enabled(std::string_view name) const {
    const graph_program& first = *instances_.front()->program;
    return std::ranges::all_of(nodes_named(name), [&](std::size_t number) { return first.is_enabled(number); });
}

void compiled_graph::upload(const stream* on) {
    if (on != nullptr) require_launch_on(*on);
    if (on != nullptr && on->is_recording()) {
        throw error(errc::graph_refused, "a graph cannot be uploaded on a stream that records a graph",
                    {options_.name, device_.name(), location_});
    }
    device_.throw_if_refusing();
    const native_stream there = on != nullptr ? on->native() : native_stream();
    for (const auto& each : instances_) each->program->upload(on != nullptr ? &there : nullptr);
}

}  // namespace sluice::detail
