// SPDX-License-Identifier: Apache-2.0
// Kernels that launch graphs, and the graphs around them.
#pragma once

#include <utility>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::conformance {

enum class how { fire_and_forget, tail, sibling };

SLUICE_KERNEL inline bool launch_by(const graph_launcher& graph, how way) {
    if (way == how::fire_and_forget) return graph.fire_and_forget();
    return way == how::tail ? graph.tail() : graph.sibling();
}

// Launches the graph once, and counts accepted launches in x[0].
struct launch_and_count {
    how way;
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher graph, disjoint_view<int> x) const {
        int* const element = x.at(at);
        if (element != nullptr && at.value() == 0 && launch_by(graph, way)) ++*element;
    }
};

struct add_to_each {
    int by;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) *element += by;
    }
};

inline auto adding(int by) {
    return [by](tensor<int> x) {
        auto range = each_of(x);
        return launch(add_to_each{by}, range, std::move(x));
    };
}

// An operation that launches the graph and counts accepted launches in x.
template <typename Graph>
auto launching(const Graph& graph, how way, tensor<int> x) {
    auto range = each_of(x);
    return launch(launch_and_count{way}, range, graph, std::move(x));
}

// A graph that the host launches; returns how many launches of `graph` were accepted.
template <typename Graph>
auto launched_once(device& on, const Graph& graph, how way) {
    return compile(on, [=] {
        return zeros<int>({1})
            .and_then([=](auto said) { return launching(graph, way, std::move(said)); })
            .and_then(download);
    });
}

template <typename Graph>
void set_state(const Graph& graph, std::vector<int> values, scheduling_policy& pool) {
    sluice::sync(upload(std::move(values)).and_then([&](auto x) { return graph.set(std::move(x)); }), pool);
}

template <typename Graph>
std::vector<int> state_of(const Graph& graph, scheduling_policy& pool) {
    return sluice::sync(graph.get().and_then(download), pool);
}

}  // namespace sluice::conformance
