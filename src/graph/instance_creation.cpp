// SPDX-License-Identifier: Apache-2.0
// How compiled_graph creates the instances that run it: each records the operation once more, at the planned addresses.
#include <algorithm>
#include <utility>

#include "graph/graph_instance.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/learned_graph.hpp"
#include "graph/memory_plan.hpp"
#include "runtime/graph_difference.hpp"
#include "runtime/note_failure.hpp"
#include "runtime/runtime_log.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::detail {
namespace {

// The memory of a recording, as find_sites needs it.
template <typename Slots>
std::vector<recorded_memory> memory_of(graph_recorder& recorder, std::span<const graph_memory> known,
                                       const Slots& slots) {
    std::vector<recorded_memory> all;
    all.reserve(known.size());
    for (std::size_t i = 0; i < known.size(); ++i)
        all.push_back({static_cast<const std::byte*>(recorder.memory()[i]->data()), known[i].bytes});
    for (const graph_recorder::place& each : recorder.host_blocks()) all[each.index].is_host_data = true;
    for (const auto& each : slots) {
        all[each.memory].is_slot = true;
        all[each.memory].is_host_data = false;
    }
    return all;
}

bool uses_same_memory(const graph_node& a, const graph_node& b) {
    return a.what.index() == b.what.index() && a.reads == b.reads && a.writes == b.writes && a.launched == b.launched;
}

std::string words_of(graph_change change) {
    switch (change) {
        case graph_change::none: return "nothing differed";
        case graph_change::parameters: return "parameters of nodes were set";
        case graph_change::whole_graph: return "the driver updated the whole graph";
        case graph_change::instantiated: break;
    }
    return "it was instantiated again";
}

}  // namespace

// The learning recording still exists, so the instance's host blocks have other addresses: that makes addresses
// recognisable.
std::unique_ptr<graph_instance> compiled_graph::make_instance(const graph_function& record, lesson& learned) const {
    auto made = std::make_unique<graph_instance>();
    const command_info info = command();
    made->arena = device_.device_pool().allocate(layout_->arena_bytes, nullptr, info);
    made->arena->mark_scratch();
    made->bindings.resize(slots_.size());
    made->layout.host_bytes = layout_->host_bytes;
    for (const layout::place& each : layout_->places) {
        recording_layout::place place{each.bytes, nullptr, {}};
        if (each.slot == no_slot) {
            place.address = static_cast<std::byte*>(made->arena->data()) + each.offset;
        } else {
            place.memory = device_.device_pool().allocate(each.bytes, nullptr, info);
            made->bindings[each.slot].held = place.memory;
        }
        made->layout.places.push_back(std::move(place));
    }
    graph_recorder recorder(device_, &made->layout, id_);
    recorded again = record_into(recorder, record, {}, graph_recording::purpose::replaying);
    for (recording_layout::place& each : made->layout.places) each.memory = {};
    require_matches_plan(again);
    if (use_ == graph_use::by_kernels) {
        require_launch_uses(again.graph, recorder);
        wait_for_captured_memory(recorder);  // the function may have made it again for this recording
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        graph_instance::binding& bound = made->bindings[i];
        if (slots_[i].is_host) bound.held = recorder.host_blocks()[slots_[i].number].memory;
        bound.address = bound.held->data();
    }
    again.graph.is_for_kernels = use_ == graph_use::by_kernels;
    note_memory(*made, recorder, again.graph);
    understand(*made, again.graph, learned);
    try {
        made->program = device_.interpreter().instantiate(device_, std::move(again.graph));
    } catch (const device_error& failure) {
        sluice::detail::note_failure(device_, failure);
        throw;
    }
    keep(*made, recorder);
    log_instantiation();
    return made;
}

void compiled_graph::log_instantiation() const noexcept {
    const log_entry facts{.level = log_level::debug,
                          .event = log_event::graph_instantiated,
                          .device = device_.name(),
                          .name = options_.name,
                          .bytes = layout_->arena_bytes};
    device_.log().write(facts, [&] {
        return "graph " + in_quotes(options_.name) + " is instantiated on " + device_.name() + ": " +
               std::to_string(layout_->graph.nodes.size()) + " nodes, " + std::to_string(facts.bytes) +
               " bytes of temporaries";
    });
}

void compiled_graph::log_update(graph_change change) const noexcept {
    const bool again = change == graph_change::instantiated;
    const log_entry facts{.level = again ? log_level::info : log_level::debug,
                          .event = log_event::graph_updated,
                          .device = device_.name(),
                          .name = options_.name};
    device_.log().write(facts, [&] {
        return "graph " + in_quotes(options_.name) + " on " + device_.name() + " was updated: " + words_of(change) +
               (again ? ", because " + why_instantiated_ : "");
    });
}

// Finds the addresses in the instance's recording. `learned` must be of the same operation with the same arguments.
void compiled_graph::understand(graph_instance& in, const command_graph& real, lesson& learned) const {
    if (records_each_launch_) return;  // no address is ever set
    const std::vector<recorded_memory> memory = memory_of(learned.recorder, learned.made.graph.memory, slots_);
    auto sites = find_sites({learned.made.graph, memory}, {real, in.as_recorded},
                            device_.interpreter().runs_library_calls_later());
    in.is = sites ? graph_instance::state::understood : graph_instance::state::odd;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        in.bindings[s].sites.clear();
        if (sites) in.bindings[s].sites = std::move((*sites)[slots_[s].memory]);
    }
}

// Whether the instance can run with memory other than its latest recording's by setting addresses.
bool compiled_graph::can_patch_addresses(graph_instance& in, const graph_function& record) const {
    if (in.is == graph_instance::state::unknown) {
        lesson learned(device_, id_);
        // Host blocks of a slot may be free again, and the pool may return them to any caller. At the same address in
        // both recordings, an address could not be distinguished from a number.
        std::vector<const void*> taken;
        taken.reserve(in.as_recorded.size());
        for (const recorded_memory& each : in.as_recorded) taken.push_back(each.begin);
        learned.recorder.avoid_addresses(std::move(taken));
        learned.made = record_into(learned.recorder, record, {}, graph_recording::purpose::comparing);
        understand(in, in.program->commands(), learned);
    }
    return in.is == graph_instance::state::understood;
}

void compiled_graph::note_memory(graph_instance& in, graph_recorder& recorder, const command_graph& real) const {
    in.as_recorded = memory_of(recorder, real.memory, slots_);
}

// Keeps the memory and owners that the recording's commands use.
void compiled_graph::keep(graph_instance& in, graph_recorder& recorder) const {
    in.outside = recorder.outside();
    in.host_blocks = recorder.host_blocks();
    in.memory = recorder.memory();
    in.places.clear();
    for (const graph_recorder::place& each : recorder.places()) in.places.push_back(each.memory);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        // Inputs belong to one launch; an output's memory is free for the next launch when no other reference is left.
        if (!slots_[i].is_host) in.places[slots_[i].number] = {};
        if (slots_[i].is_host) in.host_blocks[slots_[i].number].memory = {};
        if (!slots_[i].is_output && !slots_[i].is_host) in.bindings[i].held = {};
    }
    for (const graph_recorder::place& each : in.host_blocks) {
        if (each.memory) each.memory->mark_scratch();
    }
}

// Checks that this recording has the learned lifetimes, edges, accesses and outputs.
void compiled_graph::require_matches_plan(const recorded& again) const {
    const std::vector<graph_node>&before = layout_->graph.nodes, &now = again.graph.nodes;
    const auto other = std::ranges::mismatch(before, now, uses_same_memory).in2;
    if (again.records_each_launch == records_each_launch_ && again.outputs == layout_->outputs && other == now.end() &&
        compare(layout_->graph, again.graph).has_same_topology)
        return;
    const bool is_known = other != now.end();
    throw error(
        errc::graph_refused,
        "the operation differed when it was recorded again; its commands, and the memory they use, must not depend "
        "on anything, not even on its arguments (to change the operation, use update)",
        {is_known ? other->name : options_.name, device_.name(), is_known ? other->location : location_});
}

// Why the operation does not fit the existing plan; empty when it does.
std::string compiled_graph::other_plan(lesson& learned) const {
    const graph_difference topology = compare(layout_->graph, learned.made.graph);
    if (!topology.has_same_topology) return topology.why;
    const std::vector<graph_node>&before = layout_->graph.nodes, &now = learned.made.graph.nodes;
    const auto other = std::ranges::mismatch(before, now, uses_same_memory).in2;
    if (other != now.end())
        return "node " + std::to_string(other - now.begin()) + ", " + label(*other) + ", uses other memory";
    if (learned.made.outputs != layout_->outputs) return "the outputs are in other memory";
    if (learned.made.records_each_launch != records_each_launch_)
        return "host calls, or results for one launch only, have come or gone";
    const auto has_bytes = [](const graph_recorder::place& a, const layout::place& b) { return a.bytes == b.bytes; };
    const auto is_block = [](const graph_recorder::place& a, std::size_t bytes) { return a.bytes == bytes; };
    const bool fits =
        std::ranges::equal(learned.recorder.places(), layout_->places, has_bytes) &&
        (!layout_->host_bytes || std::ranges::equal(learned.recorder.host_blocks(), *layout_->host_bytes, is_block));
    return fits ? std::string() : "its temporaries have other sizes";
}

}  // namespace sluice::detail
