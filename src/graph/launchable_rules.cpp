// SPDX-License-Identifier: Apache-2.0
// What holds for graphs that kernels launch, besides the rules for all graphs: what they may contain, which memory a
// launch uses, and how they are updated while other graphs hold their handle.
#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "graph/graph_instance.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/learned_graph.hpp"
#include "runtime/exclusive_use.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/base/error.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

// Pinned memory that several threads may write: a pinned_tensor's.
bool is_shared_host_memory(const storage& memory, device& on) {
    return &memory.pool() == &on.host_pool() && memory.lock() != nullptr;
}

// Why a GPU cannot make this copy when a kernel launches the graph, or why its result could not be read; null when it
// can.
const char* why_not_copied(const copy_command& copy, const graph_node& node, const command_graph& in, device& on) {
    if (copy.direction == copy_direction::device_to_device) return nullptr;
    const bool is_upload = copy.direction == copy_direction::host_to_device;
    const void* const on_host = is_upload ? copy.source : copy.destination;
    if (on.kind() == device_kind::cuda && copy.bytes != 0 &&
        !on.interpreter().is_pinned(on_host, is_upload ? source_reach(copy) : destination_reach(copy)))
        return "cannot copy from or to host memory that is not pinned: use a pinned_tensor";
    const auto is_of_this_graph = [&](std::uint32_t memory) { return in.memory[memory].is_temporary; };
    if (is_upload) return nullptr;
    const bool is_readable =
        copy.host_owner == nullptr && !node.writes.empty() && std::ranges::none_of(node.writes, is_of_this_graph);
    return is_readable ? nullptr
                       : "cannot download, since no thread could wait for the result: store into a pinned_tensor";
}

}  // namespace

// Refuses what a kernel cannot launch on a GPU.
void compiled_graph::require_launchable(const command_graph& learned) const {
    const auto refuse = [&](const graph_node& node, const char* rule) {
        throw error(errc::graph_refused, std::string("a graph that kernels launch ") + rule,
                    {node.name, device_.name(), node.location});
    };
    for (const graph_node& node : learned.nodes) {
        if (std::holds_alternative<conditional_command>(node.what)) refuse(node, "cannot contain conditions or loops");
        if (std::holds_alternative<host_command>(node.what)) refuse(node, "cannot contain host calls");
        const auto* const copy = std::get_if<copy_command>(&node.what);
        const char* const rule = copy != nullptr ? why_not_copied(*copy, node, learned, device_) : nullptr;
        if (rule != nullptr) refuse(node, rule);
    }
}

// Commands that launch the graph name this memory as written. So all launches are ordered, also after and before those
// of the graphs that it launches, and the host can wait for what is in pinned memory.
void compiled_graph::find_launch_uses(const command_graph& learned, const graph_recorder& recorder,
                                      std::span<storage* const> state) {
    const auto add = [&](storage* memory) {
        if (!is_used_by_launches(*memory)) launch_memory_.emplace_back(memory);
    };
    launch_memory_.clear();
    state_size_ = state.size();
    std::ranges::for_each(state, add);
    for (const graph_node& node : learned.nodes) {
        launches_others_ = launches_others_ || !node.launched_owners.empty();
        for (const std::uint32_t each : node.launched) add(recorder.memory()[each]);
    }
    for (const graph_recorder::external_memory& each : recorder.outside()) {
        if (is_shared_host_memory(*each.memory, device_)) add(each.memory.get());
    }
    launches_use_.clear();
    for (const storage_ref& each : launch_memory_) launches_use_.push_back(each.get());
}

bool compiled_graph::is_used_by_launches(const storage& memory) const noexcept {
    return std::ranges::find(launch_memory_, &memory, &storage_ref::get) != launch_memory_.end();
}

// Refuses a recording that uses memory which those who launch the graph do not name.
void compiled_graph::require_launch_uses(const command_graph& real, graph_recorder& recorder) const {
    const auto refuse = [&](const graph_node* node, const char* why) {
        throw error(errc::graph_refused, why,
                    {node != nullptr ? node->name : options_.name, device_.name(),
                     node != nullptr ? node->location : location_});
    };
    for (storage* const each : recorder.memory()) {
        const auto is_place = [&](const graph_recorder::place& place) { return place.memory.get() == each; };
        if (!each->is_planned() || std::ranges::any_of(recorder.places(), is_place)) continue;
        refuse(nullptr,
               "a graph that kernels launch cannot capture the result of a graph that is still being recorded");
    }
    for (const graph_node& node : real.nodes) {
        const auto is_named = [&](std::uint32_t each) { return is_used_by_launches(*recorder.memory()[each]); };
        if (!std::ranges::all_of(node.launched, is_named))
            refuse(&node,
                   "an update cannot launch graphs that the graph did not launch when it was created: graphs "
                   "that launch it name the memory of those");
    }
    for (const graph_recorder::external_memory& each : recorder.outside()) {
        if (is_used_by_launches(*each.memory)) continue;
        if (is_shared_host_memory(*each.memory, device_))
            refuse(
                nullptr,
                "a pinned_tensor that the graph did not use when it was first recorded: graphs that launch it name its "
                "memory, so create it before, and capture it in the function of launchable()");
        if (each.mode == access_mode::write)
            refuse(nullptr,
                   "a graph that kernels launch may write only its own tensors, pinned_tensors and the state "
                   "of graphs that it launches, not captured memory");
    }
}

// A launch by a kernel is not ordered after the commands that write captured memory, and would not receive their
// failure.
void compiled_graph::wait_for_captured_memory(const graph_recorder& recorder) const {
    for (const graph_recorder::external_memory& each : recorder.outside()) {
        if (is_used_by_launches(*each.memory)) continue;
        each.memory->await_last_write();
        const storage::written last = each.memory->last_write();
        if (std::exception_ptr failure = last.depends_on ? last.depends_on->failure() : nullptr)
            std::rethrow_exception(std::move(failure));
    }
}

graph_change compiled_graph::update_in_place(const graph_function& record) {
    lesson learned(device_, id_);
    learned.made = record_into(learned.recorder, record, {}, graph_recording::purpose::learning);
    require_launchable(learned.made.graph);
    if (const std::string why = other_plan(learned); !why.empty()) {
        throw error(errc::graph_refused,
                    "the update needs another graph, but graphs that launch this one hold its handle: " + why,
                    {options_.name, device_.name(), location_});
    }
    graph_instance& in = *instances_.front();
    graph_recorder recorder(device_, &in.layout, id_);
    recorded again = record_into(recorder, record, {}, graph_recording::purpose::replaying);
    require_matches_plan(again);
    require_launch_uses(again.graph, recorder);
    wait_for_captured_memory(recorder);
    again.graph.is_for_kernels = true;

    if (const std::string why = compare(in.program->commands(), again.graph).other_groups; !why.empty()) {
        throw error(errc::graph_refused,
                    "the update needs another graph, but graphs that launch this one hold its handle: " + why,
                    {options_.name, device_.name(), location_});
    }

    graph_instance used;  // the memory of the new recording, then of the previous one
    note_memory(used, recorder, again.graph);
    keep(used, recorder);
    command_graph before = in.program->commands();

    // Commands that launch the graph name its state. So from here on no launch is in flight, and none is submitted.
    const std::span<storage* const> state(launches_use_.data(), state_size_);
    const exclusive_use alone(state, access_mode::write);
    graph_change change{};
    try {
        in.program->update(std::move(again.graph));
        change = in.program->flush();
    } catch (...) {
        // The driver has accepted these commands before.
        in.program->update(std::move(before));
        static_cast<void>(in.program->flush());
        throw;
    }
    std::swap(in.as_recorded, used.as_recorded);
    std::swap(in.outside, used.outside);
    std::swap(in.host_blocks, used.host_blocks);
    std::swap(in.memory, used.memory);
    std::swap(in.places, used.places);
    log_update(change);
    return change;
}

}  // namespace sluice::detail
