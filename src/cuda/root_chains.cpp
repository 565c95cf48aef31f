// SPDX-License-Identifier: Apache-2.0
#include "cuda/root_chains.hpp"

#include <algorithm>
#include <map>

#include "cuda/small_copy.hpp"

namespace sluice::cuda {
namespace {

// A search takes a step for each node and edge; in larger graphs such chains would gain nothing anyway.
constexpr std::size_t most_nodes = 4096;
constexpr std::size_t most_searches = 256;

// Whether each node is `first` or comes after it.
std::vector<bool> at_or_after(const command_graph& graph, std::uint32_t first) {
    std::vector<bool> found(graph.nodes.size());
    found[first] = true;
    for (std::size_t i = first + 1; i < graph.nodes.size(); ++i) {
        found[i] = std::ranges::any_of(graph.nodes[i].after, [&](const graph_edge& each) { return found[each.from]; });
    }
    return found;
}

}  // namespace

root_chains::root_chains(const command_graph& of, const std::vector<kind>& kinds) : graph_(of) {
    const std::vector<graph_node>& nodes = of.nodes;
    if (nodes.size() > most_nodes) return;
    std::vector<std::uint32_t> roots;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        if (kinds[i] != kind::other && nodes[i].after.empty()) roots.push_back(i);
    }
    if (roots.size() < 2) return;
    const auto is_root = [&](std::uint32_t node) { return std::ranges::binary_search(roots, node); };
    std::map<std::uint32_t, std::vector<std::uint32_t>> followers;  // of each root
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        for (const graph_edge& each : nodes[i].after) {
            if (is_root(each.from)) followers[each.from].push_back(i);
        }
    }

    // A chain ends at the first follower of a root, if at least two roots are needed there or later.
    std::vector<bool> is_taken(nodes.size());
    std::size_t searches = 0;
    for (const auto& [root, after_it] : followers) {
        if (is_taken[root] || ++searches > most_searches) continue;
        const std::uint32_t end = after_it.front();
        const std::vector<bool> later = at_or_after(of, end);
        std::vector<std::uint32_t> chain;
        for (const auto& [each, needed_by] : followers) {
            const bool is_before = each < end && !is_taken[each];
            if (is_before && std::ranges::all_of(needed_by, [&](std::uint32_t node) { return later[node]; }))
                chain.push_back(each);
        }
        if (chain.size() < 2 || !std::ranges::binary_search(chain, root)) continue;
        if (changed_.empty()) {
            changed_.resize(nodes.size());
            is_changed_.resize(nodes.size());
            works_first_.resize(nodes.size());
            is_made_elsewhere_.resize(nodes.size());
            makes_.resize(nodes.size());
        }
        const auto is_in_chain = [&](const graph_edge& each) { return std::ranges::binary_search(chain, each.from); };
        std::vector<std::uint32_t> fills, links;  // what one kernel makes, and what becomes nodes
        for (const std::uint32_t each : chain) {
            is_taken[each] = true;
            (kinds[each] == kind::fill && fills.size() < most_fills ? fills : links).push_back(each);
        }
        if (!fills.empty()) links.insert(std::ranges::upper_bound(links, fills.back()), fills.back());
        if (fills.size() > 1) {
            for (std::size_t i = 0; i + 1 < fills.size(); ++i) is_made_elsewhere_[fills[i]] = true;
            makes_[fills.back()] = std::move(fills);
        }
        for (std::size_t i = 1; i < links.size(); ++i) {
            changed_[links[i]] = {{.from = links[i - 1], .memory = graph_edge::no_memory}};
            is_changed_[links[i]] = works_first_[links[i]] = true;
        }
        for (const std::uint32_t each : chain) {
            for (const std::uint32_t node : followers[each]) {
                if (!is_changed_[node]) changed_[node] = nodes[node].after;
                is_changed_[node] = true;
                std::erase_if(changed_[node], is_in_chain);  // it comes after `end`, or is it
            }
        }
        // A kernel that starts early waits fully for what it shares no data with.
        const bool waits_fully = std::ranges::any_of(nodes[end].after, [&](const graph_edge& each) {
            return each.reason == edge_reason::stream_order && is_in_chain(each);
        });
        changed_[end].push_back({.from = links.back(),
                                 .memory = graph_edge::no_memory,
                                 .reason = waits_fully ? edge_reason::stream_order : edge_reason::read_after_write});
    }
}

std::span<const graph_edge> root_chains::before(std::size_t node) const noexcept {
    if (changed_.empty() || !is_changed_[node]) return graph_.nodes[node].after;
    return changed_[node];
}

bool root_chains::may_work_first(std::size_t node) const noexcept {
    return !works_first_.empty() && works_first_[node];
}

std::span<const std::uint32_t> root_chains::makes(std::size_t node) const noexcept {
    if (makes_.empty()) return {};
    return makes_[node];
}

bool root_chains::is_made_elsewhere(std::size_t node) const noexcept {
    return !is_made_elsewhere_.empty() && is_made_elsewhere_[node];
}

}  // namespace sluice::cuda
