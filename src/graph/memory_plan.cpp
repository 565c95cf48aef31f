// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.hpp"

#include <algorithm>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::size_t alignment = 256;

std::size_t round_up(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// The first and last users of a place, as far as the order relative to other places needs them.
struct lifetime {
    std::vector<std::uint32_t> first;  // all nodes up to the first write
    std::vector<std::uint32_t> last;   // the last write and the reads since
    bool is_written = false;

    void add_read(std::uint32_t node) {
        if (!is_written) first.push_back(node);
        last.push_back(node);
    }
    void add_write(std::uint32_t node) {
        if (!is_written) first.push_back(node);
        is_written = true;
        last.assign(1, node);
    }
};

std::vector<lifetime> lifetimes_of(const command_graph& graph) {
    std::vector<lifetime> all(graph.memory.size());
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
        for (const std::uint32_t each : graph.nodes[i].reads) all[each].add_read(i);
        for (const std::uint32_t each : graph.nodes[i].writes) all[each].add_write(i);
    }
    return all;
}

// The nodes that come before a given node.
class ancestors {
public:
    explicit ancestors(const command_graph& graph) : graph_(graph), seen_(graph.nodes.size(), 0) {}

    void look_from(std::uint32_t node) {
        ++round_;
        open_.assign(1, node);
        while (!open_.empty()) {
            const std::uint32_t next = open_.back();
            open_.pop_back();
            for (const graph_edge& edge : graph_.nodes[next].after) {
                if (std::exchange(seen_[edge.from], round_) != round_) open_.push_back(edge.from);
            }
        }
    }
    bool contains(std::uint32_t node) const { return seen_[node] == round_; }

private:
    const command_graph& graph_;
    std::vector<std::uint32_t> seen_;
    std::vector<std::uint32_t> open_;
    std::uint32_t round_ = 0;
};

struct range {
    std::size_t begin, end;
};

// The lowest offset at which `bytes` fit between the taken ranges.
std::size_t first_gap(std::vector<range>& taken, std::size_t bytes) {
    std::ranges::sort(taken, {}, &range::begin);
    std::size_t offset = 0;
    for (const range& each : taken) {
        if (each.begin >= offset + bytes) break;
        offset = std::max(offset, each.end);
    }
    return offset;
}

}  // namespace

memory_plan plan_memory(const command_graph& graph, std::span<const planned_place> places) {
    const std::vector<lifetime> lifetimes = lifetimes_of(graph);
    ancestors before(graph);
    memory_plan plan;
    std::vector<range> taken;
    for (std::size_t i = 0; i < places.size(); ++i) {
        const lifetime& life = lifetimes[places[i].memory];
        const std::size_t bytes = std::max(round_up(places[i].bytes), alignment);
        // If several nodes are the first users, no single node precedes all uses, so the place shares with no other.
        const bool may_share = life.first.size() == 1;
        if (may_share) before.look_from(life.first.front());
        taken.clear();
        for (std::size_t other = 0; other < i; ++other) {
            const auto& theirs = lifetimes[places[other].memory].last;
            const bool is_over =
                may_share && std::ranges::all_of(theirs, [&](std::uint32_t node) { return before.contains(node); });
            if (!is_over)
                taken.push_back(
                    {plan.offsets[other], plan.offsets[other] + std::max(round_up(places[other].bytes), alignment)});
        }
        const std::size_t offset = first_gap(taken, bytes);
        plan.offsets.push_back(offset);
        plan.bytes = std::max(plan.bytes, offset + bytes);
    }
    return plan;
}

}  // namespace sluice::detail
