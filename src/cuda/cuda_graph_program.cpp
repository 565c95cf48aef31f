// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_graph_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <variant>

#include "cuda/api/commands.hpp"
#include "cuda/capture_stream.hpp"
#include "cuda/condition.hpp"
#include "runtime/group_launch.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::cuda {
bool can_start_early(const device& on) noexcept { return on.properties().compute_capability >= 90; }

cuda_graph_program::cuda_graph_program(device& owner, const api::gpu_context& context, command_graph commands)
    : owner_(owner),
      context_(context),
      graph_(std::make_shared<command_graph>(std::move(commands))),
      is_dirty_(graph_->nodes.size()),
      known_kernels_(graph_->nodes.size()) {
    const api::device_scope scope(context_);
    built made = build(*graph_);
    modules_ = std::make_shared<module_list>();
    keep_modules(*graph_, *modules_);
    own(instantiate(made.graph.get()));
    if (graph_->is_for_kernels) upload_and_wait();  // the host's launches upload implicitly, a kernel's launches do not
    native_ = std::move(made.graph);
    nodes_ = std::move(made.nodes);
    host_calls_ = std::move(made.host_calls);
}

void cuda_graph_program::keep_modules(const command_graph& of, module_list& in) {
    for (const graph_node& node : of.nodes) {
        if (const auto* const launch = std::get_if<launch_command>(&node.what)) keep_module(*launch, in);
        if (const auto* const part = std::get_if<conditional_command>(&node.what)) keep_modules(*part->body, in);
    }
}

void cuda_graph_program::keep_module(const launch_command& launch, module_list& in) {
    if (launch.function == nullptr || std::ranges::find(in, launch.function->owner) != in.end()) return;
    in.push_back(launch.function->owner);
}

// The last launch in flight may destroy the graph: the modules stay loaded until then.
void cuda_graph_program::own(api::graph_exec_handle exec) {
    const api::destroy_graph_exec destroy = exec.get_deleter();
    exec_ = std::shared_ptr<CUgraphExec_st>(exec.release(),
                                            [destroy, modules = modules_](CUgraphExec_st* graph) { destroy(graph); });
}

error_context cuda_graph_program::context_of(const graph_node& node) const noexcept {
    return {node.name, owner_.name(), node.location};
}

CUfunc_st* cuda_graph_program::kernel_of(const launch_command& command, const error_context& context) {
    if (command.function != nullptr) return static_cast<CUfunc_st*>(command.function->handle);
    if (command.device_function == nullptr) {
        throw error(errc::unsupported, "this launch was not compiled by nvcc, so the kernel has no GPU code", context);
    }
    CUfunc_st*& known = kernels_[command.device_function];
    if (known == nullptr) known = api::find_kernel(command.device_function, context);
    if (command.shared_bytes != 0 && command.shared_bytes > api::allowed_shared_memory(known, context))
        static_cast<void>(api::allow_shared_memory(known, context));
    return known;
}

cuda_graph_program::built cuda_graph_program::build(const command_graph& from) {
    built made;
    made.graph = api::create_graph();
    graph_host_calls host_calls;
    std::vector<open_loop> loops;
    build_into(made.graph.get(), from, made.nodes, host_calls, loops, {}, false);
    if (!host_calls.all.empty()) made.host_calls = std::make_shared<graph_host_calls>(std::move(host_calls));
    return made;
}

root_chains::kind cuda_graph_program::kind_of(const graph_node& node) const noexcept {
    const auto* const copy = std::get_if<copy_command>(&node.what);
    if (copy != nullptr && is_by_kernel(*copy)) return root_chains::kind::copy;
    const auto* const fill = std::get_if<fill_command>(&node.what);
    return fill != nullptr && is_small_fill(*fill) ? root_chains::kind::fill : root_chains::kind::other;
}

bool cuda_graph_program::is_by_kernel(const copy_command& copy) const noexcept {
    if (!is_small_copy(copy)) return false;
    switch (copy.direction) {
        case copy_direction::host_to_device: return owner_.interpreter().is_pinned(copy.source, source_reach(copy));
        case copy_direction::device_to_host:
            return owner_.interpreter().is_pinned(copy.destination, destination_reach(copy));
        case copy_direction::device_to_device: break;
    }
    return true;
}

api::graph_node_handle cuda_graph_program::add_small_copy(CUgraph_st* to, api::graph_dependencies after,
                                                          const small_copy_closure& closure,
                                                          const error_context& context) {
    const launch_command launch = small_copy(closure);
    return api::add_kernel(to, after, kernel_of(launch, context), launch, context);
}

// What the user has disabled does nothing, as a kernel of no bytes: a disabled node would let those after it start
// before those before it have ended. The nodes of a part cannot be disabled.
bool cuda_graph_program::is_left_out(std::size_t node, bool is_inside) const noexcept {
    return !is_inside && !is_disabled_.empty() && is_disabled_[node];
}

small_copy_closure cuda_graph_program::copy_of(const command_graph& from, std::size_t node, bool works_first,
                                               bool is_inside) const {
    const auto& copy = std::get<copy_command>(from.nodes[node].what);
    return {copy.destination, copy.source, is_left_out(node, is_inside) ? 0 : copy.bytes, copy.rows, works_first};
}

small_fill_closure cuda_graph_program::fills_of(const command_graph& from, std::span<const std::uint32_t> nodes,
                                                bool works_first, bool is_inside) const {
    small_fill_closure made{};
    made.works_first = works_first;
    for (const std::uint32_t each : nodes) {
        const auto& fill = std::get<fill_command>(from.nodes[each].what);
        made.areas[made.count++] = {fill.destination, is_left_out(each, is_inside) ? 0 : fill.bytes, fill.value};
    }
    return made;
}

api::graph_node_handle cuda_graph_program::add_launch(CUgraph_st* to, api::graph_dependencies after,
                                                      const command_graph& from, const graph_node& node,
                                                      const std::vector<open_loop>& loops) {
    const error_context context = context_of(node);
    launch_command launch = from.launch(node);
    if (loops.empty()) return api::add_kernel(to, after, kernel_of(launch, context), launch, context);
    // In a loop: replaces the mark of a loop's condition by the condition's handle.
    const auto bytes = from.closure(node);
    std::vector<std::max_align_t> closure((bytes.size() + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
    auto* const begin = reinterpret_cast<std::byte*>(closure.data());
    std::ranges::copy(bytes, begin);
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, begin + at, sizeof(word));
        const auto loop = std::ranges::find(loops, word, &open_loop::mark);
        if (loop != loops.end()) std::memcpy(begin + at, &loop->handle, sizeof(loop->handle));
    }
    launch.closure = closure.data();
    return api::add_kernel(to, after, kernel_of(launch, context), launch, context);
}

api::graph_node_handle cuda_graph_program::add_condition(CUgraph_st* to, api::graph_dependencies after,
                                                         flag_condition condition) {
    const error_context context{"condition", owner_.name()};
    const condition_closure setting{condition.handle, condition.flag};
    const launch_command set = set_condition(setting);
    return api::add_kernel(to, after, kernel_of(set, context), set, context);
}

// Adds a second node after the only node of a body: see do_nothing().
void cuda_graph_program::add_nothing(CUgraph_st* to, api::graph_node_handle after) {
    const error_context context{"body", owner_.name()};
    const launch_command nothing = do_nothing();
    const api::graph_dependency only{after, false};
    static_cast<void>(api::add_kernel(to, {&only, 1}, kernel_of(nothing, context), nothing, context));
}

api::graph_node_handle cuda_graph_program::add_part(CUgraph_st* to, api::graph_dependencies after,
                                                    const graph_node& node, graph_host_calls& host_calls,
                                                    std::vector<open_loop>& loops, bool is_inside) {
    const error_context context = context_of(node);
    const auto& part = std::get<conditional_command>(node.what);
    const bool repeats = part.what == conditional_command::kind::repeatedly;
    const unsigned long long handle = api::create_condition(to, part.mark != 0, context);
    std::vector<built_node> inner;
    const flag_condition condition{handle, part.condition};
    if (part.mark != 0) {
        // The driver sets the first value when the graph is launched, but a loop inside a loop begins many times.
        api::graph_dependency set{};
        if (is_inside) {
            set.node = add_condition(to, after, condition);
            after = {&set, 1};
        }
        const auto made = api::add_conditional(to, after, handle, repeats, context);
        loops.push_back({part.mark, handle});
        build_into(made.body, *part.body, inner, host_calls, loops, {}, true);
        loops.pop_back();
        return made.node;
    }
    const api::graph_dependency set{add_condition(to, after, condition), false};
    const auto made = api::add_conditional(to, {&set, 1}, handle, repeats, context);
    build_into(made.body, *part.body, inner, host_calls, loops, repeats ? condition : flag_condition{}, true);
    return made.node;
}

// Later nodes get one node to come after, however many the library call became. What is captured comes after all of
// `after` whatever their edges say; a kernel that the call leaves may start early.
cuda_graph_program::built_node cuda_graph_program::add_library_call(CUgraph_st* to, api::graph_dependencies after,
                                                                    const command_graph& from, const graph_node& node,
                                                                    const error_context& context, bool is_inside) {
    const library_command library = from.library_call(node);
    const capture_stream on(owner_);
    const bool may_start_early = can_start_early(owner_) && !is_inside && !from.is_for_kernels;
    left_kernel left([&](std::size_t read) { return read < node.reads.size() && !from.is_written(node.reads[read]); });
    const early_starts scope(may_start_early, may_start_early ? &left : nullptr);
    const auto call = [&] { library.call(on.native(), library.closure); };
    if (is_inside) return {api::capture_as_node(to, after, on.get(), call, context)};
    const auto leaves = api::capture(to, after, on.get(), call, context);
    if (left.kernel() != nullptr) return {api::add_kernel(to, after, left.kernel(), left.command(), context), true};
    // A call that enqueues nothing leaves what it comes after.
    const auto is_leaf = [&](const api::graph_dependency& each) { return each.node == leaves.front(); };
    if (leaves.size() == 1 && std::ranges::none_of(after, is_leaf))
        return {leaves.front(), may_start_early && api::is_kernel(leaves.front(), context)};
    std::vector<api::graph_dependency> all;
    for (const api::graph_node_handle each : leaves) all.push_back({each, false});
    return {api::add_empty(to, all, context)};
}

// Builds into an empty graph.
void cuda_graph_program::build_into(CUgraph_st* to, const command_graph& from, std::vector<built_node>& nodes,
                                    graph_host_calls& host_calls, std::vector<open_loop>& loops,
                                    flag_condition condition, bool is_inside) {
    nodes.clear();
    nodes.reserve(from.nodes.size());
    std::vector<bool> has_follower(from.nodes.size());
    std::vector<api::graph_dependency> after;
    std::vector<root_chains::kind> kinds(from.nodes.size());
    for (std::size_t i = 0; i < from.nodes.size(); ++i) kinds[i] = kind_of(from.nodes[i]);
    // In graphs that kernels launch, all edges are ordinary edges.
    const bool may_start_early = can_start_early(owner_) && !from.is_for_kernels;
    const root_chains chains(from, may_start_early ? kinds : std::vector<root_chains::kind>(from.nodes.size()));
    for (std::size_t i = 0; i < from.nodes.size(); ++i) {
        const graph_node& node = from.nodes[i];
        const error_context context = context_of(node);
        const auto* const copy = std::get_if<copy_command>(&node.what);
        const auto* const launch = std::get_if<launch_command>(&node.what);
        const auto* const fill = std::get_if<fill_command>(&node.what);
        if (chains.is_made_elsewhere(i)) {
            has_follower[i] = true;
            nodes.push_back({});
            continue;
        }
        const bool is_own = kinds[i] != root_chains::kind::other;
        const bool is_library = std::holds_alternative<library_command>(node.what);
        const bool starts_by_itself =
            is_own || (launch != nullptr && launch->early_start) || (is_library && !is_inside);
        const bool waits_programmatically = may_start_early && starts_by_itself && !is_left_out(i, is_inside);
        const bool works_first = chains.may_work_first(i);
        const auto itself = static_cast<std::uint32_t>(i);
        std::span<const std::uint32_t> carried = chains.makes(i);
        after.clear();
        bool has_early_edge = false;
        for (const graph_edge& edge : chains.before(i)) {
            has_follower[edge.from] = true;
            built_node& from_node = nodes[edge.from];
            const bool is_early = waits_programmatically && from_node.is_kernel && !is_left_out(edge.from, is_inside) &&
                                  edge.reason != edge_reason::stream_order;
            after.push_back({from_node.handle, is_early});
            from_node.has_early_edge |= is_early;
            has_early_edge |= is_early;
        }
        api::graph_node_handle made = nullptr;
        if (copy != nullptr) {
            made = is_own ? add_small_copy(to, after, copy_of(from, i, works_first, is_inside), context)
                          : api::add_copy(to, after, *copy, context);
        } else if (fill != nullptr) {
            if (is_own) {
                if (carried.empty()) carried = {&itself, 1};
                const small_fill_closure closure = fills_of(from, carried, works_first, is_inside);
                const launch_command fills = small_fill(closure);
                made = api::add_kernel(to, after, kernel_of(fills, context), fills, context);
            } else {
                made = api::add_fill(to, after, *fill, context);
            }
        } else if (launch != nullptr) {
            made = add_launch(to, after, from, node, loops);
        } else if (is_library) {
            nodes.push_back(add_library_call(to, after, from, node, context, is_inside));
            nodes.back().has_early_edge = has_early_edge;
            continue;
        } else if (const auto* host = std::get_if<host_command>(&node.what)) {
            host_calls.all.push_back(std::make_unique<graph_host_call>(host->call));
            made = api::add_host_call(to, after, &graph_host_call::run, host_calls.all.back().get(), context);
        } else {
            made = add_part(to, after, node, host_calls, loops, is_inside);
        }
        // (Edges to what comes after a cluster or a cooperative launch are ordinary ones.)
        const bool is_kernel = is_own || (launch != nullptr && !sluice::detail::is_group(*launch));
        nodes.push_back({made, is_kernel, has_early_edge, works_first});
        if (carried.size() < 2) continue;
        nodes.back().makes.assign(carried.begin(), carried.end());
        for (const std::uint32_t each : carried) nodes[each].made_by = itself;
    }
    if (condition.flag == nullptr) {
        if (is_inside && nodes.size() == 1) add_nothing(to, nodes.front().handle);
        return;
    }
    after.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!has_follower[i]) after.push_back({nodes[i].handle, false});
    }
    static_cast<void>(add_condition(to, after, condition));
}

}  // namespace sluice::cuda
