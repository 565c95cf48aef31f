// SPDX-License-Identifier: Apache-2.0
// The order of a graph's nodes: chains of nodes are timelines, and a node's clock is what the paths to it contain.
#include <algorithm>
#include <cstddef>

#include "check/graphs.hpp"
#include "check/streams.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t most_entries = std::size_t{1} << 24;  // of all clocks
constexpr std::size_t most_uses = 65'536;                   // each is compared with those before

}  // namespace

std::vector<std::uint32_t> topological_order(const graph& of) {
    std::vector<std::vector<std::uint32_t>> followers(of.nodes.size());
    std::vector<std::size_t> open(of.nodes.size());
    std::vector<std::uint32_t> order;
    for (std::uint32_t node = 0; node < of.nodes.size(); ++node) {
        open[node] = of.nodes[node].after.size();
        for (const std::uint32_t each : of.nodes[node].after) followers[each].push_back(node);
        if (open[node] == 0) order.push_back(node);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        for (const std::uint32_t each : followers[order[i]])
            if (--open[each] == 0) order.push_back(each);
    }
    if (order.size() != of.nodes.size()) throw trace_refusal("a graph has a cycle");
    return order;
}

namespace {

class graph_clocks {
public:
    explicit graph_clocks(const graph& of) : of_(of), clocks_(of.nodes.size()), at_(of.nodes.size()) {}

    // False when all clocks together become too large.
    bool place(std::uint32_t node) {
        vector_clock& clock = clocks_[node];
        for (const std::uint32_t each : of_.nodes[node].after) clock.join(clocks_[each]);
        moment at{static_cast<timeline_index>(chains_.size()), 1};
        for (const std::uint32_t each : of_.nodes[node].after) {
            const moment before = at_[each];
            if (chains_[before.timeline] != before.when) continue;  // another node continues that chain
            at = {before.timeline, before.when + 1};
            break;
        }
        if (at.timeline == chains_.size()) chains_.push_back(0);
        chains_[at.timeline] = at.when;
        clock.join(at);
        at_[node] = at;
        entries_ += chains_.size();
        return entries_ <= most_entries;
    }
    const vector_clock& clock(std::uint32_t node) const { return clocks_[node]; }
    moment at(std::uint32_t node) const { return at_[node]; }

private:
    const graph& of_;
    std::vector<vector_clock> clocks_;
    std::vector<moment> at_;
    std::vector<std::uint32_t> chains_;  // the length of each
    std::size_t entries_ = 0;
};

}  // namespace

bool check_graph(const graph& of, const conflict_report& report) {
    const std::vector<std::uint32_t> order = topological_order(of);
    std::size_t uses = 0;
    for (const graph_node& each : of.nodes) uses += each.uses.size();
    if (uses > most_uses) return false;
    graph_clocks clocks(of);
    shadow used;
    for (const std::uint32_t node : order) {
        if (!clocks.place(node)) return false;
        for (const access& each : of.nodes[node].uses) {
            const access_record use{each, clocks.at(node), of.nodes[node].by};
            if (used.is_full()) return false;
            used.note(use, clocks.clock(node),
                      [&](const access_record& earlier, conflict kind) { report(earlier, use, kind); });
        }
    }
    return true;
}

const graph_node* find_unjoined(const graph& of, const std::vector<std::uint32_t>& last) {
    std::vector<bool> is_joined(of.nodes.size());
    std::vector<std::uint32_t> open = last;
    for (const std::uint32_t each : last) is_joined[each] = true;
    while (!open.empty()) {
        const std::uint32_t node = open.back();
        open.pop_back();
        for (const std::uint32_t each : of.nodes[node].after) {
            if (is_joined[each]) continue;
            is_joined[each] = true;
            open.push_back(each);
        }
    }
    const auto at = std::ranges::find(is_joined, false);
    return at == is_joined.end() ? nullptr : &of.nodes[static_cast<std::size_t>(at - is_joined.begin())];
}

}  // namespace sluice::check
