// The half of compiled_graph that records: learning an operation, and making the instances that run it.
#include <algorithm>
#include <array>
#include <utility>

#include "graph/graph_instance.hpp"
#include "graph/graph_layout.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/memory_plan.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/graph/compiled_graph.hpp"
#include "sluice/runtime/error.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::detail {
namespace {

// Whether a node uses the memory in a way that setting an address does not reach.
bool is_used_beyond_reach(const command_graph& graph, std::uint32_t memory, bool library_calls_run_later) {
    return std::ranges::any_of(graph.nodes, [&](const graph_node& node) {
        const bool is_beyond = std::holds_alternative<conditional_command>(node.what) ||
                               std::holds_alternative<host_command>(node.what) ||
                               (std::holds_alternative<library_command>(node.what) && !library_calls_run_later);
        return is_beyond && (std::ranges::find(node.reads, memory) != node.reads.end() ||
                             std::ranges::find(node.writes, memory) != node.writes.end());
    });
}

bool is_written(const command_graph& graph, std::uint32_t memory) {
    return std::ranges::any_of(graph.nodes, [&](const graph_node& node) {
        return std::ranges::find(node.writes, memory) != node.writes.end();
    });
}

}  // namespace

// To the device, piece by piece. Copies that run side by side share the bus, and the first piece would come as late as
// the last: each names as written whose turn it is, so that they come one behind the other.
std::vector<storage_ref> compiled_graph::upload_input(stream& on, const graph_input& input, storage& block) const {
    const std::vector<std::size_t> all = input.pieces.empty() ? std::vector{input.bytes} : input.pieces;
    const storage_ref turn = all.size() > 1 ? on.allocate(1, {"turn"}) : storage_ref();
    std::vector<storage_ref> made;
    const auto* from = static_cast<const std::byte*>(block.data());
    for (const std::size_t bytes : all) {
        made.push_back(on.allocate(bytes, {"input"}));
        const std::array accesses{memory_access{&block, access_mode::read},
                                  memory_access{made.back().get(), access_mode::write},
                                  memory_access{turn.get(), access_mode::write}};
        if (bytes != 0) {
            on.copy({"upload", accesses, where_},
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
    stream& on = recorder.recording();
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
        made.records_each = recording.records_each();
        const auto find = [](const auto& list, const storage* memory) {
            return static_cast<std::size_t>(
                std::ranges::find(list, memory, [](const auto& each) { return each.memory.get(); }) - list.begin());
        };
        for (std::size_t i = 0; i < recording.outputs().size(); ++i) {
            storage* const memory = recording.outputs()[i];
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
    made.records_each = made.records_each || made.graph.has_host_calls();
    for (const graph_recorder::place& each : recorder.places()) {
        if (!each.is_given && each.memory->is_planned() && each.memory->use_count() != 1) {
            throw error(errc::graph_refused,
                        "memory allocated inside the graph outlives it; what is to be kept must be its output",
                        {each.name, device_.name(), each.where.line() != 0 ? each.where : where_});
        }
    }
    return made;
}

bool compiled_graph::find_what_must_be_copied(const recorded& learned) {
    copies_in_.resize(inputs_.size());
    copies_out_.resize(learned.outputs.size());
    if (records_each_) return false;  // no address need be set later
    const bool later = device_.interpreter().runs_library_calls_later();
    bool has_changed = false;
    const auto is_beyond = [&](std::uint32_t memory) { return is_used_beyond_reach(learned.graph, memory, later); };
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
        graph_recorder recorder(device_, nullptr, id_);
        recorded learned = record_into(recorder, record, {}, graph_recording::purpose::learning);
        records_each_ = learned.records_each;
        slots_.clear();
        input_slots_.clear();
        output_slots_.clear();
        const auto slot_for = [&](bool is_host, std::size_t number, bool is_output) {
            for (std::size_t i = 0; i < slots_.size(); ++i) {
                if (slots_[i].is_host == is_host && slots_[i].number == number) return i;
            }
            const graph_recorder::place& place = is_host ? recorder.host_blocks()[number] : recorder.places()[number];
            slots_.push_back({is_host, number, place.index, place.bytes, is_output,
                              is_written(learned.graph, place.index), place.memory->data()});
            return slots_.size() - 1;
        };
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            input_slots_.push_back(slot_for(inputs_[i].is_from_host, learned.input_numbers[i], false));
        for (const output_place& each : learned.outputs) {
            const bool has_slot = each.what == output_place::kind::device || each.what == output_place::kind::host;
            output_slots_.push_back(has_slot ? slot_for(each.what == output_place::kind::host, each.number, true)
                                             : no_slot);
        }
        if (find_what_must_be_copied(learned)) continue;
        if (use_ == graph_use::by_kernels) require_launchable(learned.graph);

        std::vector<std::size_t> slot_of_place(recorder.places().size(), no_slot);
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (!slots_[i].is_host) slot_of_place[slots_[i].number] = i;
        }
        std::vector<planned_place> planned;
        for (std::size_t i = 0; i < slot_of_place.size(); ++i) {
            if (slot_of_place[i] == no_slot)
                planned.push_back({recorder.places()[i].index, recorder.places()[i].bytes});
        }
        const memory_plan plan = plan_memory(learned.graph, planned);
        layout_ = std::make_unique<layout>();
        for (std::size_t i = 0, next = 0; i < slot_of_place.size(); ++i) {
            const bool is_planned = slot_of_place[i] == no_slot;
            layout_->places.push_back(
                {recorder.places()[i].bytes, is_planned ? plan.offsets[next++] : 0, slot_of_place[i]});
        }
        layout_->arena_bytes = plan.bytes;
        layout_->outputs = std::move(learned.outputs);
        layout_->graph = std::move(learned.graph);
        node_count_.store(layout_->graph.nodes.size(), std::memory_order_relaxed);
        memory_bytes_ = plan.bytes;
        // The host blocks of this recording go with the recorder; those of an instance are elsewhere while it lives,
        // which tells their addresses apart.
        for (std::size_t i = 0; i < options_.replicas; ++i) instances_.push_back(make_instance(record));
        if (use_ == graph_use::by_kernels) {
            require_writes_only(state);
            await_what_is_captured();
        }
        return;
    }
}

// What a GPU can launch by itself.
void compiled_graph::require_launchable(const command_graph& learned) const {
    const auto refuse = [&](const graph_node& node, const char* rule) {
        throw error(errc::graph_refused, std::string("a graph that kernels launch ") + rule,
                    {node.name, device_.name(), node.where});
    };
    for (const graph_node& node : learned.nodes) {
        if (std::holds_alternative<conditional_command>(node.what)) refuse(node, "has no conditions or loops in it");
        if (std::holds_alternative<host_command>(node.what)) refuse(node, "has no host calls in it");
        if (!node.launched_owners.empty()) refuse(node, "launches no graph but itself");
        const auto* const copy = std::get_if<copy_command>(&node.what);
        if (copy != nullptr && copy->direction != copy_direction::device_to_device)
            refuse(node, "copies nothing from or to the host's memory");
    }
}

void compiled_graph::require_writes_only(std::span<storage* const> state) const {
    const graph_instance& made = *instances_.front();
    for (const storage* const each : made.memory) {
        const auto is_place = [&](const storage_ref& place) { return place.get() == each; };
        if (each == nullptr || !each->is_planned() || std::ranges::any_of(made.places, is_place)) continue;
        throw error(errc::graph_refused, "a graph that kernels launch cannot capture what another graph is to make",
                    {options_.name, device_.name(), where_});
    }
    for (const graph_recorder::outside_memory& each : made.outside) {
        if (each.mode == access_mode::read || std::ranges::find(state, each.memory.get()) != state.end()) continue;
        throw error(errc::graph_refused,
                    "a graph that kernels launch writes its own tensors only, not memory that it captured",
                    {options_.name, device_.name(), where_});
    }
}

// Nothing orders a launch by a kernel behind who made it, or tells it of a failure.
void compiled_graph::await_what_is_captured() const {
    for (const graph_recorder::outside_memory& each : instances_.front()->outside) {
        each.memory->await_last_write();
        const storage::written last = each.memory->last_write();
        if (std::exception_ptr failure = last.hangs_on ? last.hangs_on->failure() : nullptr)
            std::rethrow_exception(std::move(failure));
    }
}

std::unique_ptr<graph_instance> compiled_graph::make_instance(const graph_function& record) const {
    auto made = std::make_unique<graph_instance>();
    const command_info info = command();
    made->arena = device_.device_pool().allocate(layout_->arena_bytes, nullptr, info);
    made->arena->holds_no_data();
    made->bindings.resize(slots_.size());
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
    require_as_learned(again);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        graph_instance::binding& bound = made->bindings[i];
        if (slots_[i].is_host) bound.held = recorder.host_blocks()[slots_[i].number].memory;
        bound.address = bound.held->data();
        bound.sites = find_sites(again.graph, slots_[i].memory, bound.address, slots_[i].bytes, &layout_->graph,
                                 slots_[i].learned_at);
    }
    again.graph.is_for_kernels = use_ == graph_use::by_kernels;
    made->program = device_.interpreter().instantiate(device_, std::move(again.graph));
    keep(*made, recorder);
    return made;
}

// What a recording leaves with the instance that runs it.
void compiled_graph::keep(graph_instance& in, graph_recorder& recorder) const {
    in.outside = recorder.outside();
    in.host_blocks = recorder.host_blocks();
    in.owners = std::move(recorder.owners());
    in.memory = recorder.memory();
    in.places.clear();
    for (const graph_recorder::place& each : recorder.places()) in.places.push_back(each.memory);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        // Inputs belong to one launch; and an output's memory is free for the next when nobody else has it.
        if (!slots_[i].is_host) in.places[slots_[i].number] = {};
        if (slots_[i].is_host) in.host_blocks[slots_[i].number].memory = {};
        if (!slots_[i].is_output && !slots_[i].is_host) in.bindings[i].held = {};
    }
    for (const graph_recorder::place& each : in.host_blocks) {
        if (each.memory) each.memory->holds_no_data();
    }
}

// What was learned holds for this recording too: lifetimes, edges, accesses, outputs.
void compiled_graph::require_as_learned(const recorded& again) const {
    const auto same_uses = [](const graph_node& a, const graph_node& b) {
        return a.reads == b.reads && a.writes == b.writes;
    };
    const bool is_same = again.records_each == records_each_ && again.outputs == layout_->outputs &&
                         compare(layout_->graph, again.graph).has_same_topology &&
                         std::ranges::equal(layout_->graph.nodes, again.graph.nodes, same_uses);
    if (!is_same) {
        throw error(errc::graph_refused,
                    "the operation did something else when it was recorded again; what it does may depend on nothing "
                    "but its inputs' values",
                    {options_.name, device_.name(), where_});
    }
}

// Whether a recording from scratch comes out as the first one did.
bool compiled_graph::is_as_learned(const graph_function& record) const {
    graph_recorder recorder(device_, nullptr, id_);
    const recorded learned = record_into(recorder, record, {}, graph_recording::purpose::learning);
    const auto same_bytes = [](const graph_recorder::place& a, const layout::place& b) { return a.bytes == b.bytes; };
    if (!std::ranges::equal(recorder.places(), layout_->places, same_bytes)) return false;
    try {
        require_as_learned(learned);
        return true;
    } catch (const error&) {
        return false;
    }
}

}  // namespace sluice::detail
