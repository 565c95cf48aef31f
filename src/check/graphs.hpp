// SPDX-License-Identifier: Apache-2.0
// graphs: the graphs of a program, built or captured, and what is not ordered within one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "check/event.hpp"
#include "check/shadow.hpp"
#include "check/vector_clock.hpp"

namespace sluice::check {

struct graph_node {
    call_ref by;
    std::vector<access> uses;
    std::vector<std::uint32_t> after;  // indices of nodes
};

struct graph {
    std::vector<graph_node> nodes;
    std::unordered_map<std::uint64_t, std::uint32_t> by_id;
    bool is_checked = false;  // the order of these nodes; for one that is instantiated again
};

struct graph_use {
    access used;
    call_ref by;
};

// What can be launched. Launches of one follow each other.
struct graph_exec {
    std::vector<graph_use> uses;  // of all nodes, each use once
    vector_clock upto;            // the last launch
};

// Indices of all nodes, each after those that it follows. Throws trace_refusal for a graph with a cycle.
std::vector<std::uint32_t> topological_order(const graph& of);

using conflict_report = std::function<void(const access_record& earlier, const access_record& later, conflict kind)>;

// Looks for conflicts between nodes that no path connects. False: the graph is too wide for that, and was not checked.
// Throws trace_refusal for a graph with a cycle.
bool check_graph(const graph& of, const conflict_report& report);

// Whether each node is followed by one of these, or is one of them; else the first that is not.
const graph_node* find_unjoined(const graph& of, const std::vector<std::uint32_t>& last);

class graphs {
public:
    // Its nodes are those that add_node() gave it.
    void add(std::uint64_t id, graph made);
    graph& find(std::uint64_t id);
    // `to` need not be one of these graphs yet. Throws trace_refusal when there are too many nodes, edges and uses.
    std::uint32_t add_node(graph& to, graph_node made);
    // A graph that add_node() has filled does not become one of these.
    void drop(const graph& made) noexcept;
    void connect(graph& in, std::uint64_t from, std::uint64_t to);
    void destroy(std::uint64_t id);

    graph_exec& instantiate(std::uint64_t id, const graph& of);
    graph_exec& find_exec(std::uint64_t id);
    void destroy_exec(std::uint64_t id);

    static constexpr std::size_t most_parts = std::size_t{1} << 21;  // nodes, edges and uses at a time
    static constexpr std::size_t most_graphs = 65'536;

private:
    void count(std::size_t parts);

    std::unordered_map<std::uint64_t, graph> all_;
    std::unordered_map<std::uint64_t, graph_exec> execs_;
    std::size_t parts_ = 0;
};

}  // namespace sluice::check
