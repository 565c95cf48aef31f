// SPDX-License-Identifier: Apache-2.0
#include "runtime/launched_graphs.hpp"

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>
#include <vector>

#include "sluice/runtime/graph_launcher.hpp"

namespace sluice::detail {
namespace {

// CUDA's limits.
constexpr std::size_t max_concurrent = 120;  // graphs that one run of a graph launches to run concurrently
constexpr std::size_t max_tail = 255;        // graphs that wait for the end of another at the same time

// One run of a graph, and the graphs that its kernels have launched so far.
struct graph_run {
    const replay_list* graph;
    graph_run* launcher;
    std::vector<const replay_list*> concurrent = {};
    std::vector<const replay_list*> later = {};
    bool launches_itself = false;
};

// One command on the thread that executes it: the graph that the host launched, and all graphs launched from it.
class command_run {
public:
    command_run(const native_stream& on, const replay_order& order)
        : on_(on), order_(order), outer_(std::exchange(on_this_thread, this)) {}
    command_run(const command_run&) = delete;  // a thread-local pointer points to it
    command_run& operator=(const command_run&) = delete;
    ~command_run() { on_this_thread = outer_; }

    static command_run* here() noexcept { return on_this_thread; }

    std::exception_ptr run(const replay_list& first) {
        graph_run host{nullptr, nullptr, {&first}};  // where siblings of the first graph belong
        launched_.push_back(&first);
        return run_concurrent(host);
    }

    bool launch(const replay_list* graph, launch_order order) {
        graph_run& from = *innermost_;
        if (order == launch_order::sibling && from.graph->graph.is_for_kernels) return false;  // see graph_launcher
        const bool is_itself = graph == nullptr;
        if (is_itself) {
            graph = from.graph;
            if (!graph->graph.is_for_kernels || from.launches_itself) return false;
        } else if (std::ranges::find(launched_, graph) != launched_.end()) {
            return false;
        }
        if (order == launch_order::tail) {
            if (waiting_ == max_tail) return false;
            from.later.push_back(graph);
            ++waiting_;
        } else {
            graph_run& owner = order == launch_order::sibling ? *from.launcher : from;
            if (owner.concurrent.size() == max_concurrent) return false;
            owner.concurrent.push_back(graph);
        }
        if (is_itself) {
            from.launches_itself = true;
        } else {
            launched_.push_back(graph);
        }
        return true;
    }

private:
    std::exception_ptr run_concurrent(graph_run& of) {
        for (std::size_t i = 0; i < of.concurrent.size(); ++i) {
            if (std::exception_ptr failure = run_row(*of.concurrent[i], of)) return failure;
        }
        return {};
    }

    // Runs a graph and those that wait for its end, in a loop: graphs that wait for the end of a later one run before
    // those that waited already.
    std::exception_ptr run_row(const replay_list& first, graph_run& launcher) {
        std::vector<const replay_list*> row{&first};  // the next one last
        for (;;) {
            graph_run now{row.back(), &launcher};
            row.pop_back();
            graph_run* const outer = std::exchange(innermost_, &now);
            std::exception_ptr failure = now.graph->run_nodes(on_, order_);
            if (!failure) failure = run_concurrent(now);
            innermost_ = outer;
            if (failure) return failure;
            if (!now.launches_itself) std::erase(launched_, now.graph);
            row.insert(row.end(), now.later.rbegin(), now.later.rend());
            if (row.empty()) return {};
            --waiting_;
        }
    }

    static inline thread_local command_run* on_this_thread = nullptr;

    const native_stream& on_;
    const replay_order& order_;
    command_run* const outer_;
    graph_run* innermost_ = nullptr;
    std::vector<const replay_list*> launched_;  // waiting or running
    std::size_t waiting_ = 0;                   // for the end of others
};

}  // namespace

std::exception_ptr run_with_launched_graphs(const replay_list& list, const native_stream& on,
                                            const replay_order& order) {
    try {
        return command_run(on, order).run(list);
    } catch (...) {  // no memory for the lists of graphs to run
        return std::current_exception();
    }
}

bool launch_while_replaying(const void* graph, launch_order order) noexcept {
    command_run* const here = command_run::here();
    try {
        const auto* const target = static_cast<const launch_target*>(graph);
        return here != nullptr && here->launch(target != nullptr ? target->now : nullptr, order);
    } catch (...) {  // no memory
        return false;
    }
}

}  // namespace sluice::detail
