// SPDX-License-Identifier: Apache-2.0
#include "sim/graph_walk.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/sim_machine.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::sim::detail {
namespace {

// For each node, the nodes before it along the edges.
class reachability {
public:
    explicit reachability(const command_graph& graph) {
        for (const graph_node& node : graph.nodes) {
            std::vector<bool> before(before_.size());
            for (const graph_edge& edge : node.after) {
                before[edge.from] = true;
                const std::vector<bool>& earlier = before_[edge.from];
                for (std::size_t i = 0; i < earlier.size(); ++i) before[i] = before[i] || earlier[i];
            }
            before_.push_back(std::move(before));
        }
    }
    bool is_before(std::uint32_t earlier, std::uint32_t later) const { return before_[later][earlier]; }

private:
    std::vector<std::vector<bool>> before_;
};

// One node's access to a range of bytes.
struct touch {
    std::uint32_t node = 0;
    access_mode mode = access_mode::read;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool is_on_device = true;

    const std::byte* end() const noexcept { return begin + bytes; }
};

// The accesses that the nodes declare, and those that copies and fills really make.
std::vector<touch> touches_of(const command_graph& graph, std::span<const graph_range> memory) {
    std::vector<touch> all;
    const auto add = [&](std::uint32_t node, access_mode mode, const void* begin, std::size_t bytes, bool on_device) {
        if (bytes != 0) all.push_back({node, mode, static_cast<const std::byte*>(begin), bytes, on_device});
    };
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
        const graph_node& node = graph.nodes[i];
        for (const std::uint32_t each : node.reads)
            add(i, access_mode::read, memory[each].begin, memory[each].bytes, true);
        for (const std::uint32_t each : node.writes)
            add(i, access_mode::write, memory[each].begin, memory[each].bytes, true);
        if (const auto* const copy = std::get_if<copy_command>(&node.what)) {
            for_each_row(*copy, [&](const std::byte* from, const std::byte* to) {
                add(i, access_mode::read, from, copy->bytes, copy->direction != copy_direction::host_to_device);
                add(i, access_mode::write, to, copy->bytes, copy->direction != copy_direction::device_to_host);
                return true;
            });
        } else if (const auto* const fill = std::get_if<fill_command>(&node.what)) {
            add(i, access_mode::write, fill->destination, fill->bytes, true);
        }
    }
    return all;
}

class graph_check {
public:
    graph_check(checker& with, const graph_walk& launched, command_ref who, const actor& launch,
                std::span<const named_block> accesses, std::span<block* const> all)
        : with_(with), launched_(launched), who_(who), launch_(launch), accesses_(accesses), all_(all) {}

    void look_at(const command_graph& graph, bool is_part) {
        std::vector<touch> touches = touches_of(graph, launched_.memory);
        for (const touch& each : touches)
            with_.check_range(who_, accesses_, all_, each.begin, each.bytes, each.mode, each.is_on_device);
        const reachability edges(graph);
        find_race(graph, edges, touches);
        // (A part may read what was written before it, or in its last run.)
        if (!is_part) find_uninitialized_read(graph, edges);
        for (const graph_node& node : graph.nodes) {
            if (const auto* const part = std::get_if<conditional_command>(&node.what)) look_at(*part->body, true);
        }
    }

private:
    void find_race(const command_graph& graph, const reachability& edges, std::vector<touch>& touches) {
        std::ranges::sort(touches, {}, &touch::begin);
        using pair = std::tuple<std::uint32_t, std::uint32_t, const std::byte*, access_mode, access_mode>;
        std::optional<pair> first;  // in the order of nodes, because addresses differ between runs
        for (std::size_t i = 0; i < touches.size(); ++i) {
            for (std::size_t j = i + 1; j < touches.size() && touches[j].begin < touches[i].end(); ++j) {
                const touch& earlier = touches[i].node < touches[j].node ? touches[i] : touches[j];
                const touch& later = touches[i].node < touches[j].node ? touches[j] : touches[i];
                if (earlier.node == later.node) continue;
                if (earlier.mode == access_mode::read && later.mode == access_mode::read) continue;
                if (edges.is_before(earlier.node, later.node)) continue;
                const pair found{later.node, earlier.node, touches[j].begin, later.mode, earlier.mode};
                if (!first || std::tie(std::get<0>(found), std::get<1>(found)) <
                                  std::tie(std::get<0>(*first), std::get<1>(*first)))
                    first = found;
            }
        }
        if (!first) return;
        const auto [later, earlier, location, later_mode, earlier_mode] = *first;
        actor one = name_of(graph.nodes[earlier]);
        actor other = name_of(graph.nodes[later]);
        std::string message = in_graph(other) + does(later_mode) + "what " + to_string(one) + does(earlier_mode) +
                              "too, and no edge orders them";
        with_.report(fault::race, std::move(message), std::move(one), std::move(other), block_at(location));
    }

    void find_uninitialized_read(const command_graph& graph, const reachability& edges) {
        for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
            for (const std::uint32_t memory : graph.nodes[i].reads) {
                if (!launched_.memory[memory].is_temporary || launched_.memory[memory].bytes == 0) continue;
                bool is_written = false;
                for (std::uint32_t j = 0; j < i && !is_written; ++j)
                    is_written = edges.is_before(j, i) &&
                                 std::ranges::find(graph.nodes[j].writes, memory) != graph.nodes[j].writes.end();
                if (is_written) continue;
                const actor reader = name_of(graph.nodes[i]);
                with_.report(fault::uninitialized_read,
                             in_graph(reader) + " reads memory that no node before it has written", reader, {},
                             block_at(launched_.memory[memory].begin));
                return;
            }
        }
    }

    static std::string does(access_mode mode) { return mode == access_mode::read ? " reads " : " writes "; }
    std::string in_graph(const actor& node) const { return "in the graph '" + launch_.name + "', " + to_string(node); }
    actor name_of(const graph_node& node) const {
        actor who = launch_;
        who.name = node.name;
        who.operation = node.operation;
        who.location = line_of(node.location);
        return who;
    }
    const block* block_at(const std::byte* address) const {
        const auto found = std::ranges::find_if(all_, [&](block* each) { return each->contains(address, 1); });
        return found != all_.end() ? *found : nullptr;
    }

    checker& with_;
    const graph_walk& launched_;
    const command_ref who_;
    const actor& launch_;
    const std::span<const named_block> accesses_;
    const std::span<block* const> all_;
};

}  // namespace

graph_walk::graph_walk(const graph_command& command, std::shared_ptr<const sluice::detail::replay_list> what)
    : list(std::move(what)), owner(command.owner) {
    const std::vector<graph_memory>& known = list->graph.memory;
    for (std::size_t i = 0; i < known.size(); ++i) {
        const storage* const is = command.memory[i];
        if (is == nullptr) {
            memory.emplace_back();
        } else {
            memory.push_back({static_cast<std::byte*>(is->data()), known[i].bytes, is->is_planned()});
        }
    }
}

void check(checker& with, const graph_walk& launched, command_ref who, const actor& launch,
           std::span<const named_block> accesses, std::span<block* const> all) {
    graph_check(with, launched, who, launch, accesses, all).look_at(launched.list->graph, false);
}

void perform(sim_machine& with, const graph_walk& launched, const native_stream& on) {
    for (const graph_range& each : launched.memory) {
        if (each.is_temporary && each.bytes != 0)
            std::memset(each.begin, static_cast<int>(with.checks().garbage), each.bytes);
    }
    const auto draw_order = [&](const command_graph& graph) {
        std::vector<std::uint32_t> order(graph.nodes.size());
        std::iota(order.begin(), order.end(), 0u);
        if (with.is_in_order()) return order;
        std::vector<std::uint32_t> open_before;
        std::vector<std::vector<std::uint32_t>> next(graph.nodes.size());
        std::vector<std::uint32_t> ready;
        for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
            open_before.push_back(static_cast<std::uint32_t>(graph.nodes[i].after.size()));
            for (const graph_edge& edge : graph.nodes[i].after) next[edge.from].push_back(i);
            if (open_before.back() == 0) ready.push_back(i);
        }
        for (std::uint32_t& each : order) {
            std::swap(ready[with.draw(static_cast<std::uint32_t>(ready.size()))], ready.back());
            each = ready.back();
            ready.pop_back();
            for (const std::uint32_t follower : next[each]) {
                if (--open_before[follower] == 0) ready.push_back(follower);
            }
        }
        return order;
    };
    if (std::exception_ptr failure = launched.list->run(on, draw_order)) std::rethrow_exception(std::move(failure));
}

}  // namespace sluice::sim::detail
