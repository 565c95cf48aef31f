// SPDX-License-Identifier: Apache-2.0
#include "check/graphs.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "check/streams.hpp"

namespace sluice::check {
namespace {

std::size_t parts_of(const graph_node& node) noexcept { return 1 + node.uses.size() + node.after.size(); }

std::size_t parts_of(const graph& of) noexcept {
    std::size_t parts = 0;
    for (const graph_node& each : of.nodes) parts += parts_of(each);
    return parts;
}

}  // namespace

void graphs::count(std::size_t parts) {
    parts_ += parts;
    if (parts_ > most_parts) throw trace_refusal("the graphs have more than 2,097,152 nodes, edges and uses of memory");
}

void graphs::add(std::uint64_t id, graph made) {
    destroy(id);
    if (all_.size() == most_graphs) throw trace_refusal("there are more than 65,536 graphs at a time");
    all_[id] = std::move(made);
}

graph& graphs::find(std::uint64_t id) {
    const auto at = all_.find(id);
    if (at == all_.end()) throw trace_refusal("graph " + std::to_string(id) + " is not declared");
    return at->second;
}

void graphs::drop(const graph& made) noexcept { parts_ -= parts_of(made); }

void graphs::destroy(std::uint64_t id) {
    const auto at = all_.find(id);
    if (at == all_.end()) return;
    drop(at->second);
    all_.erase(at);
}

std::uint32_t graphs::add_node(graph& to, graph_node made) {
    count(parts_of(made));
    to.is_checked = false;
    to.nodes.push_back(std::move(made));
    return static_cast<std::uint32_t>(to.nodes.size() - 1);
}

void graphs::connect(graph& in, std::uint64_t from, std::uint64_t to) {
    const auto first = in.by_id.find(from), second = in.by_id.find(to);
    if (first == in.by_id.end() || second == in.by_id.end())
        throw trace_refusal("an edge names a node that is not declared");
    count(1);
    in.is_checked = false;
    in.nodes[second->second].after.push_back(first->second);
}

graph_exec& graphs::instantiate(std::uint64_t id, const graph& of) {
    destroy_exec(id);
    if (execs_.size() == most_graphs) throw trace_refusal("there are more than 65,536 instantiated graphs at a time");
    graph_exec made;
    std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, access_mode>> known;
    for (const graph_node& node : of.nodes) {
        for (const access& each : node.uses) {
            if (made.uses.size() == shadow::most_records) break;
            const auto& [at, bytes, rows, pitch] = each.where;
            if (known.emplace(at, bytes, rows, pitch, each.mode).second) made.uses.push_back({each, node.by});
        }
    }
    count(made.uses.size());
    return execs_[id] = std::move(made);
}

void graphs::destroy_exec(std::uint64_t id) {
    const auto at = execs_.find(id);
    if (at == execs_.end()) return;
    parts_ -= at->second.uses.size();
    execs_.erase(at);
}

graph_exec& graphs::find_exec(std::uint64_t id) {
    const auto at = execs_.find(id);
    if (at == execs_.end()) throw trace_refusal("the graph " + std::to_string(id) + " is not instantiated");
    return at->second;
}

}  // namespace sluice::check
