// SPDX-License-Identifier: Apache-2.0
// The recording half of compiled_graph: learns an operation and plans its memory. instance_creation.cpp creates the
// instances that run it.
#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "graph/graph_instance.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/learned_graph.hpp"
#include "graph/memory_plan.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/base/error.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::detail {
namespace {

// Whether a node uses the memory in a way that setting an address does not change.
bool has_unpatchable_use(const command_graph& graph, std::uint32_t memory, bool library_calls_run_later) {
    return std::ranges::any_of(graph.nodes, [&](const graph_node& node) {
        const bool is_beyond = std::holds_alternative<conditional_command>(node.what) ||
                               std::holds_alternative<host_command>(node.what) ||
                               (std::holds_alternative<library_command>(node.what) && !library_calls_run_later);
        return is_beyond && (std::ranges::find(node.reads, memory) != node.reads.end() ||
                             std::ranges::find(node.writes, memory) != node.writes.end());
    });
}

// The memory of an output, which must not be a part of what the graph allocated: each launch makes whole outputs.
storage* whole_output(const graph_recorder& recorder, storage* output) {
    const graph_recorder::place* const whole = output != nullptr ? recorder.whole_place_of(*output) : nullptr;
    if (whole == nullptr) return output;
    if (whole->memory->data() == output->data() && whole->bytes == output->capacity_bytes()) return whole->memory.get();
    throw error(errc::graph_refused, "an output of a graph is a whole tensor: join the parts, or copy the part",
                {"split"});
}

// Drops the owners that only a run of the recording needs.
void drop_run_owners(command_graph& graph) {
    graph.owners.clear();
    for (graph_node& node : graph.nodes) {
        node.launched_owners.clear();
        if (auto* const copy = std::get_if<copy_command>(&node.what)) copy->host_owner = {};
    }
}

}  // namespace

// Uploads piece by piece. Concurrent copies share the bus, so the first piece would arrive as late as the last. Each
// copy declares a write of `order`, so that the copies run one after the other.
std::vector<storage_ref> compiled_graph::upload_input(stream on, const graph_input& input, storage& block) const {
    const std::vector<std::size_t> all = input.pieces.empty() ? std::vector{input.bytes} : input.pieces;
    const storage_ref order = all.size() > 1 ? on.allocate(1, {"upload order"}) : storage_ref();
    std::vector<storage_ref> made;
    const auto* from = static_cast<const std::byte*>(block.data());
    for (const std::size_t bytes : all) {
        made.push_back(on.allocate(bytes, {"input"}));
        const std::array accesses{memory_access{&block, access_mode::read},
                                  memory_access{made.back().get(), access_mode::write},
                                  memory_access{order.get(), access_mode::write}};
        if (bytes != 0) {
            on.copy({"upload", accesses, location_},
                    {made.back()->data(), from, bytes, copy_direction::host_to_device, {}});
        }
        from += bytes;
    }
    return made;
}

compiled_graph::recorded compiled_graph::record_into(graph_recorder& recorder, const graph_function& record,
                                                     std::span<const storage_ref> host_inputs,
                                                     graph_recording::purpose what) const {
    recorded made;
    stream on = recorder.recording();
    {
        execution_context context(on);
        std::vector<std::vector<storage_ref>> given;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const std::size_t bytes = inputs_[i].bytes;
            if (inputs_[i].is_from_host) {
                made.input_numbers.push_back(recorder.host_blocks().size());
                const storage_ref block = host_inputs.empty() ? on.allocate_host(bytes, {"input"})
                                                              : recorder.adopt_host(host_inputs[i], bytes, {"input"});
                given.push_back(upload_input(on, inputs_[i], *block));
                continue;
            }
            made.input_numbers.push_back(recorder.places().size());
            given.push_back({on.allocate(bytes, {"input"})});
            if (!copies_in_.empty() && copies_in_[i]) {
                storage_ref inner = on.allocate(bytes, {"input"});
                if (bytes != 0)
                    copy_bytes(on, {"copy in"}, *inner, *given.back()[0], bytes, copy_direction::device_to_device);
                given.back()[0] = std::move(inner);
            }
        }
        graph_recording recording(context, std::move(given), what);
        record(recording);
        for (std::shared_ptr<const void>& each : recording.owners()) recorder.keep(std::move(each));
        made.records_each_launch = recording.records_each_launch();
        const auto find = [](const auto& list, const storage* memory) {
            return static_cast<std::size_t>(
                std::ranges::find(list, memory, [](const auto& each) { return each.memory.get(); }) - list.begin());
        };
        for (std::size_t i = 0; i < recording.outputs().size(); ++i) {
            storage* const memory = whole_output(recorder, recording.outputs()[i].get());
            if (memory == nullptr) {
                made.outputs.push_back({output_place::kind::none, 0});
                continue;
            }
            std::size_t number = find(recorder.places(), memory);
            if (number != recorder.places().size()) {
                if (i < copies_out_.size() && copies_out_[i]) {
                    const std::size_t bytes = recorder.places()[number].bytes;
                    const storage_ref out = on.allocate(bytes, {"output"});
                    if (bytes != 0)
                        copy_bytes(on, {"copy out"}, *out, *memory, bytes, copy_direction::device_to_device);
                    number = recorder.places().size() - 1;
                }
                made.outputs.push_back({output_place::kind::device, number});
                continue;
            }
            number = find(recorder.host_blocks(), memory);
            made.outputs.push_back(number != recorder.host_blocks().size()
                                       ? output_place{output_place::kind::host, number}
                                       : output_place{output_place::kind::outside, 0});
        }
    }
    made.graph = recorder.finish();
    made.records_each_launch = made.records_each_launch || made.graph.has_host_calls();
    for (const graph_recorder::place& each : recorder.places()) {
        if (!each.is_given && each.memory->is_planned() && each.memory->use_count() != 1) {
            throw error(errc::graph_refused,
                        "memory allocated inside the graph outlives the recording; return it as an output to keep it",
                        {each.name, device_.name(), each.location.line() != 0 ? each.location : location_});
        }
    }
    return made;
}

bool compiled_graph::find_required_copies(const recorded& learned) {
    copies_in_.resize(inputs_.size());
    copies_out_.resize(learned.outputs.size());
    if (records_each_launch_) return false;  // no address need be set later
    const bool later = device_.interpreter().runs_library_calls_later();
    bool has_changed = false;
    const auto is_beyond = [&](std::uint32_t memory) { return has_unpatchable_use(learned.graph, memory, later); };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].is_from_host || copies_in_[i]) continue;
        if (is_beyond(slots_[input_slots_[i]].memory)) copies_in_[i] = has_changed = true;
    }
    for (std::size_t i = 0; i < learned.outputs.size(); ++i) {
        if (learned.outputs[i].what != output_place::kind::device || copies_out_[i]) continue;
        if (is_beyond(slots_[output_slots_[i]].memory)) copies_out_[i] = has_changed = true;
    }
    return has_changed;
}

void compiled_graph::compile(const graph_function& record, std::span<storage* const> state) {
    for (;;) {
        lesson learned(device_, id_);
        learned.made = record_into(learned.recorder, record, {}, graph_recording::purpose::learning);
        records_each_launch_ = learned.made.records_each_launch;
        slots_.clear();
        input_slots_.clear();
        output_slots_.clear();
        const auto slot_for = [&](bool is_host, std::size_t number, bool is_output) {
            for (std::size_t i = 0; i < slots_.size(); ++i) {
                if (slots_[i].is_host == is_host && slots_[i].number == number) return i;
            }
            const graph_recorder::place& place =
                is_host ? learned.recorder.host_blocks()[number] : learned.recorder.places()[number];
            slots_.push_back(
                {is_host, number, place.index, place.bytes, is_output, learned.made.graph.is_written(place.index)});
            return slots_.size() - 1;
        };
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            input_slots_.push_back(slot_for(inputs_[i].is_from_host, learned.made.input_numbers[i], false));
        for (const output_place& each : learned.made.outputs) {
            const bool has_slot = each.what == output_place::kind::device || each.what == output_place::kind::host;
            output_slots_.push_back(has_slot ? slot_for(each.what == output_place::kind::host, each.number, true)
                                             : no_slot);
        }
        if (find_required_copies(learned.made)) continue;
        if (use_ == graph_use::by_kernels) {
            require_launchable(learned.made.graph);
            find_launch_uses(learned.made.graph, learned.recorder, state);
            wait_for_captured_memory(learned.recorder);
        }
        lay_out(learned);
        for (std::size_t i = 0; i < options_.replicas; ++i) instances_.push_back(make_instance(record, learned));
        launch_handle_ = instances_.front()->program->launch_handle();
        return;
    }
}

void compiled_graph::lay_out(lesson& learned) {
    const std::vector<graph_recorder::place>& places = learned.recorder.places();
    std::vector<std::size_t> slot_of_place(places.size(), no_slot);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (!slots_[i].is_host) slot_of_place[slots_[i].number] = i;
    }
    std::vector<planned_place> planned;
    for (std::size_t i = 0; i < slot_of_place.size(); ++i) {
        if (slot_of_place[i] == no_slot) planned.push_back({places[i].index, places[i].bytes});
    }
    const memory_plan plan = plan_memory(learned.made.graph, planned);
    layout_ = std::make_unique<layout>();
    for (std::size_t i = 0, next = 0; i < slot_of_place.size(); ++i) {
        const bool is_planned = slot_of_place[i] == no_slot;
        layout_->places.push_back({places[i].bytes, is_planned ? plan.offsets[next++] : 0, slot_of_place[i]});
    }
    // When each launch is recorded, it uses fresh host blocks.
    if (!records_each_launch_) {
        layout_->host_bytes.emplace();
        for (const graph_recorder::place& each : learned.recorder.host_blocks())
            layout_->host_bytes->push_back(each.bytes);
    }
    layout_->arena_bytes = plan.bytes;
    layout_->outputs = learned.made.outputs;
    layout_->graph = learned.made.graph;
    drop_run_owners(layout_->graph);
    node_count_.store(layout_->graph.nodes.size(), std::memory_order_relaxed);
    memory_bytes_.store(plan.bytes, std::memory_order_relaxed);
}

}  // namespace sluice::detail
