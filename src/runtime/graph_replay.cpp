// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_replay.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/graph_difference.hpp"
#include "runtime/kernel_call.hpp"
#include "runtime/launched_graphs.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

void perform(const command_graph& graph, const graph_node& node, const native_stream& on) {
    if (const auto* copy = std::get_if<copy_command>(&node.what)) {
        copy_on_host(*copy);
    } else if (const auto* fill = std::get_if<fill_command>(&node.what)) {
        if (fill->bytes != 0) std::memset(fill->destination, fill->value, fill->bytes);
    } else if (const auto* launch = std::get_if<launch_command>(&node.what)) {
        run_kernel(launch->host_function, graph.closure(node).data(), node.name, on.queue->owner(), node.location);
    } else if (const auto* library = std::get_if<library_command>(&node.what)) {
        library->call(on, graph.closure(node).data());
    } else if (const auto* host = std::get_if<host_command>(&node.what)) {
        host->call();
    }
}

// One run of a list, including the bodies of its conditional nodes.
class replay {
public:
    replay(const native_stream& on, const replay_order& order) : on_(on), order_(order) {}

    std::exception_ptr run(const command_graph& graph, const std::vector<bool>& is_disabled) const {
        const std::vector<std::uint32_t> order = order_ ? order_(graph) : std::vector<std::uint32_t>();
        std::exception_ptr first;
        std::vector<bool> is_missing;  // by node, from the first failure on: whether its results are missing
        for (std::size_t step = 0; step < graph.nodes.size(); ++step) {
            const std::size_t i = order.empty() ? step : order[step];
            const graph_node& node = graph.nodes[i];
            const auto lacks_data = [&](const graph_edge& edge) {
                return is_missing[edge.from] && edge.reason != edge_reason::stream_order;
            };
            if (first && std::ranges::any_of(node.after, lacks_data)) {
                is_missing[i] = true;
                continue;
            }
            if (!is_disabled.empty() && is_disabled[i]) continue;
            std::exception_ptr failure = run_one(graph, node);
            if (!failure) continue;
            is_missing.resize(graph.nodes.size());
            is_missing[i] = true;
            if (!first) first = std::move(failure);
        }
        return first;
    }

private:
    std::exception_ptr run_one(const command_graph& graph, const graph_node& node) const {
        try {
            run_guard::check();
            if (const auto* part = std::get_if<conditional_command>(&node.what)) return run_part(*part);
            perform(graph, node, on_);
            return {};
        } catch (...) {
            return std::current_exception();
        }
    }

    std::exception_ptr run_part(const conditional_command& part) const {
        if (part.what == conditional_command::kind::once) return *part.condition != 0 ? run(*part.body, {}) : nullptr;
        while (*part.condition != 0) {
            if (std::exception_ptr failure = run(*part.body, {})) return failure;
        }
        return {};
    }

    const native_stream& on_;
    const replay_order& order_;
};

}  // namespace

std::shared_ptr<replay_list> make_replay_list(command_graph graph, std::vector<bool> is_disabled) {
    const bool launches_others =
        std::ranges::any_of(graph.nodes, [](const graph_node& node) { return !node.launched_owners.empty(); });
    const bool may_fail =
        graph.has_host_calls() || graph.has_library_calls() || graph.has_fallible_kernels() || launches_others;
    const bool launches = launches_others || graph.is_for_kernels;
    return std::make_shared<replay_list>(replay_list{std::move(graph), std::move(is_disabled), may_fail, launches});
}

std::exception_ptr replay_list::run(const native_stream& on, const replay_order& order) const {
    return launches ? run_with_launched_graphs(*this, on, order) : run_nodes(on, order);
}

std::exception_ptr replay_list::run_nodes(const native_stream& on, const replay_order& order) const {
    try {
        return replay(on, order).run(graph, is_disabled);
    } catch (...) {  // no memory for the list of missing results
        return std::current_exception();
    }
}

replay_program::replay_program(command_graph commands) : list_(make_replay_list(std::move(commands), {})) {}

replay_list& replay_program::own() {
    // Commands that run the list hold references and only ever release them, so once this is the only reference it
    // stays the only one. use_count() is a relaxed load. Dropping a copy of our own reference after theirs (a release
    // and an acquire on the same count) orders everything that they did with the list before our change.
    if (list_.use_count() == 1) {
        std::shared_ptr<replay_list>(list_).reset();
    } else {
        list_ = std::make_shared<replay_list>(*list_);
    }
    return *list_;
}

void replay_program::set_address(std::size_t node, std::size_t at, void* address) {
    set_address_in(own().graph, node, at, address);
    change_ = std::max(change_, graph_change::parameters);
}

void replay_program::update(command_graph to) {
    graph_difference difference = compare(list_->graph, to);
    const bool has_same_nodes = difference.has_same_topology;
    // Also when nothing differs: the new commands own what they need.
    list_ = make_replay_list(std::move(to), has_same_nodes ? list_->is_disabled : std::vector<bool>());
    if (difference.is_same()) return;
    const bool is_new = !has_same_nodes || !difference.other_groups.empty();  // (as on a GPU)
    if (is_new) refusal_ = std::move(has_same_nodes ? difference.other_groups : difference.why);
    change_ = std::max(change_, is_new ? graph_change::instantiated : graph_change::parameters);
}

void replay_program::set_enabled(std::size_t node, bool enabled) {
    replay_list& all = own();
    if (all.is_disabled.empty()) all.is_disabled.resize(all.graph.nodes.size());
    all.is_disabled[node] = !enabled;
}

}  // namespace sluice::detail
