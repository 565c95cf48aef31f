// SPDX-License-Identifier: Apache-2.0
// How a graph on a GPU is changed: parameters of nodes, the whole graph through the driver, or a new instantiation.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "cuda/capture_stream.hpp"
#include "cuda/cuda_graph_program.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::cuda {
namespace {

std::vector<bool> written_memory(const command_graph& of) {
    std::vector<bool> made(of.memory.size());
    for (const graph_node& node : of.nodes)
        for (const std::uint32_t each : node.writes) made[each] = true;
    return made;
}

// Whether each library call finds the same among what it reads to be written by no node: it may read that early (see
// left_kernel::is_constant). Of graphs with the same nodes.
bool have_the_same_constants(const command_graph& a, const command_graph& b) {
    if (!b.has_library_calls()) return true;
    const std::vector<bool> in_a = written_memory(a), in_b = written_memory(b);
    for (std::size_t i = 0; i < b.nodes.size(); ++i) {
        if (!std::holds_alternative<library_command>(b.nodes[i].what)) continue;
        const bool is_same = std::ranges::equal(
            a.nodes[i].reads, b.nodes[i].reads, {}, [&](std::uint32_t each) -> bool { return in_a[each]; },
            [&](std::uint32_t each) -> bool { return in_b[each]; });
        if (!is_same) return false;
    }
    return true;
}

}  // namespace

bool cuda_graph_program::stands_for_the_same(const built_node& a, const built_node& b) noexcept {
    return a.is_kernel == b.is_kernel && a.works_first == b.works_first && a.made_by == b.made_by && a.makes == b.makes;
}

void cuda_graph_program::mark(std::size_t node) {
    if (is_dirty_[node]) return;
    dirty_.push_back(node);  // first, because it may throw
    is_dirty_[node] = true;
}

void cuda_graph_program::set_address(std::size_t node, std::size_t at, void* address) {
    mark(node);
    detail::set_address_in(*graph_, node, at, address);
}

void cuda_graph_program::update(command_graph to) {
    detail::graph_difference difference = detail::compare(*graph_, to);
    if (!difference.has_same_topology) {
        other_topology_ = std::move(difference.why);
        must_rebuild_ = true;
        has_same_topology_ = false;
        is_dirty_.assign(to.nodes.size(), false);
        known_kernels_.assign(to.nodes.size(), {});
        dirty_.clear();
        is_disabled_.clear();
    } else {
        if (!difference.other_groups.empty()) {
            other_groups_ = std::move(difference.other_groups);
            must_rebuild_ = true;
        }
        if (!difference.changed.empty() && !have_the_same_constants(*graph_, to)) must_rebuild_ = true;
        for (const std::size_t each : difference.changed) {
            const auto& what = to.nodes[each].what;
            const bool has_parts =
                std::holds_alternative<library_command>(what) || std::holds_alternative<conditional_command>(what);
            // A graph that kernels launch is updated by the driver as a whole, or not at all.
            if (has_parts || to.is_for_kernels) must_rebuild_ = true;
            mark(each);
        }
    }
    graph_ = std::make_shared<command_graph>(std::move(to));
    running_ = nullptr;  // launches in flight keep the previous one
}

bool cuda_graph_program::set_node(std::size_t index) {
    const graph_node& node = graph_->nodes[index];
    const error_context context = context_of(node);
    if (const auto* copy = std::get_if<copy_command>(&node.what)) {
        if (is_by_kernel(*copy) != nodes_[index].is_kernel) return false;
        if (nodes_[index].is_kernel) {
            const small_copy_closure closure = copy_of(*graph_, index, nodes_[index].works_first, false);
            set_launch(index, small_copy(closure), context);
        } else if (copy->rows.count != 1) {
            return false;  // the driver cannot set such a node
        } else {
            api::set_copy(exec_.get(), nodes_[index].handle, *copy, context);
        }
    } else if (const auto* fill = std::get_if<fill_command>(&node.what)) {
        const std::size_t maker = nodes_[index].made_by.value_or(index);
        if (is_small_fill(*fill) != nodes_[maker].is_kernel) return false;
        if (nodes_[maker].is_kernel) {
            const auto itself = static_cast<std::uint32_t>(index);
            const std::span<const std::uint32_t> only(&itself, 1);
            const bool makes_several = nodes_[index].made_by.has_value();
            const small_fill_closure closure =
                fills_of(*graph_, makes_several ? nodes_[maker].makes : only, nodes_[maker].works_first, false);
            set_launch(maker, small_fill(closure), context);
        } else {
            api::set_fill(exec_.get(), nodes_[index].handle, *fill, context);
        }
    } else if (std::holds_alternative<launch_command>(node.what)) {
        set_launch(index, graph_->launch(node), context);
    }
    return true;
}

void cuda_graph_program::set_launch(std::size_t index, const launch_command& launch, const error_context& context) {
    known_kernel& known = known_kernels_[index];
    if (known.kernel == nullptr || launch.function != nullptr || known.symbol != launch.device_function)
        known = {launch.device_function, kernel_of(launch, context)};
    keep_module(launch, *modules_);
    api::set_kernel(exec_.get(), nodes_[index].handle, known.kernel, launch, context);
}

// From one update to the next, host calls have new states: launches in flight keep the previous ones.
void cuda_graph_program::renew_host_calls() {
    if (host_calls_ == nullptr) return;
    auto fresh = std::make_shared<graph_host_calls>();
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
        const auto* const host = std::get_if<host_command>(&graph_->nodes[i].what);
        if (host == nullptr) continue;
        fresh->all.push_back(std::make_unique<graph_host_call>(host->call));
        api::set_host_call(exec_.get(), nodes_[i].handle, &graph_host_call::run, fresh->all.back().get(),
                           context_of(graph_->nodes[i]));
    }
    host_calls_ = std::move(fresh);
}

graph_change cuda_graph_program::flush() {
    const graph_change change = apply_changes();
    if (running_ == nullptr) running_ = std::make_shared<const running>(running{exec_, graph_});
    return change;
}

graph_change cuda_graph_program::apply_changes() {
    if (!has_changes()) {
        is_uploaded_ = true;  // by the launch that follows
        return graph_change::none;
    }
    const api::device_scope scope(context_);
    if (must_rebuild_) return rebuild();
    // If parameters are set before the graph has been uploaded, every later launch is slower by 0.2 us per node
    // (measured in a chain of 1000 on an H200, driver 580).
    if (!is_uploaded_) upload_and_wait();
    bool has_host_calls = false;
    while (!dirty_.empty()) {
        const std::size_t node = dirty_.back();
        if (std::holds_alternative<host_command>(graph_->nodes[node].what)) {
            has_host_calls = true;
        } else {
            try {
                if (!set_node(node)) return rebuild();
            } catch (const device_error&) {
                return rebuild();  // a parameter cannot be set: build the graph again
            }
        }
        dirty_.pop_back();
        is_dirty_[node] = false;
        if (!has_host_calls || !dirty_.empty()) continue;
        must_rebuild_ = true;  // if renewing fails half way, some nodes refer to destroyed states
        renew_host_calls();
        must_rebuild_ = false;
    }
    return graph_change::parameters;
}

api::graph_exec_handle cuda_graph_program::instantiate(CUgraph_st* graph) {
    return api::instantiate(graph, graph_->is_for_kernels, {"graph", owner_.name()});
}

void cuda_graph_program::upload_and_wait() {
    const capture_stream on(owner_);
    api::upload(exec_.get(), on.get(), {"graph", owner_.name()});
    is_uploaded_ = true;
}

void cuda_graph_program::upload(const native_stream* on) {
    const api::device_scope scope(context_);
    const auto begin = [&] {
        api::begin_upload(exec_.get(), static_cast<CUstream_st*>(on->handle), {"graph", owner_.name()});
        is_uploaded_ = true;
    };
    // Before parameters are set, which would upload and wait.
    if (on != nullptr && !is_uploaded_ && !must_rebuild_) begin();
    if (has_changes()) static_cast<void>(flush());
    if (is_uploaded_) return;
    if (on == nullptr) return upload_and_wait();
    begin();
}

// The driver names a node of the new graph. Those that a library call or a loop's body became are not in the list: then
// the changed commands that have such nodes are named.
std::string cuda_graph_program::words_of(const api::update_refusal& refusal,
                                         const std::vector<built_node>& fresh) const {
    std::string words = "the driver refuses the update: " + refusal.why;
    const auto named = std::ranges::find(fresh, refusal.node, &built_node::handle);
    if (refusal.node != nullptr && named != fresh.end())
        return words + ", at " + detail::label(graph_->nodes[static_cast<std::size_t>(named - fresh.begin())]);
    std::string candidates;
    for (const std::size_t each : dirty_) {
        const auto& what = graph_->nodes[each].what;
        if (!std::holds_alternative<library_command>(what) && !std::holds_alternative<conditional_command>(what))
            continue;
        candidates += (candidates.empty() ? "" : ", ") + detail::label(graph_->nodes[each]);
    }
    return candidates.empty() ? words : words + ", inside one of: " + candidates;
}

graph_change cuda_graph_program::rebuild() {
    built made = build(*graph_);
    keep_modules(*graph_, *modules_);
    graph_change change = graph_change::whole_graph;
    std::string why = has_same_topology_ ? other_groups_ : other_topology_;
    // The driver compares nodes, not what they stand for: another fill may have become the small one.
    if (has_same_topology_ && why.empty() && !std::ranges::equal(nodes_, made.nodes, stands_for_the_same))
        why = "fills or copies at its beginning are divided among kernels in another way";
    if (has_same_topology_ && why.empty()) {
        const auto refused = api::update(exec_.get(), made.graph.get());
        why = refused ? words_of(*refused, made.nodes) : std::string();
    }
    if (!why.empty() && graph_->is_for_kernels) {
        throw error(errc::graph_refused,
                    "the update needs another graph, but graphs that launch this one hold its handle: " + why,
                    {"graph", owner_.name()});
    }
    if (!why.empty()) {
        api::graph_exec_handle fresh = instantiate(made.graph.get());
        auto modules = std::make_shared<module_list>();
        keep_modules(*graph_, *modules);
        modules.swap(modules_);  // the previous modules stay until the previous graph is destroyed
        own(std::move(fresh));
        running_ = nullptr;
        native_ = std::move(made.graph);
        nodes_ = std::move(made.nodes);
        is_uploaded_ = false;
        change = graph_change::instantiated;
        refusal_ = std::move(why);
        for (std::size_t i = 0; i < is_disabled_.size(); ++i) {
            if (is_disabled_[i] && kind_of(graph_->nodes[i]) == root_chains::kind::other)
                api::set_enabled(exec_.get(), nodes_[i].handle, false);
        }
    }
    host_calls_ = std::move(made.host_calls);
    must_rebuild_ = false;
    has_same_topology_ = true;
    other_groups_.clear();
    for (const std::size_t each : dirty_) is_dirty_[each] = false;
    dirty_.clear();
    if (graph_->is_for_kernels) upload_and_wait();  // as after the instantiation
    return change;
}

void cuda_graph_program::set_enabled(std::size_t node, bool enabled) {
    const api::device_scope scope(context_);
    if (has_changes()) static_cast<void>(flush());
    if (is_disabled_.empty()) is_disabled_.resize(graph_->nodes.size());
    is_disabled_[node] = !enabled;
    if (kind_of(graph_->nodes[node]) != root_chains::kind::other) return mark(node);
    if (enabled || !nodes_[node].has_early_edge) return api::set_enabled(exec_.get(), nodes_[node].handle, enabled);
    // Its edges must be ordinary ones: see is_left_out. (Those of a node that is enabled may be.)
    other_groups_ = "a kernel that does not wait for the end of another one, or another one for its end, is disabled";
    must_rebuild_ = true;
    static_cast<void>(flush());
}

}  // namespace sluice::cuda
