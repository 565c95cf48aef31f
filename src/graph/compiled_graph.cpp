#include "sluice/graph/compiled_graph.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ranges>
#include <set>
#include <utility>

#include "graph/graph_instance.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/memory_plan.hpp"
#include "runtime/graph_difference.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::detail {

// Where a recording has an output.
struct compiled_graph::output_place {
    enum class kind : unsigned char { none, device, host, outside };
    kind what = kind::none;
    std::size_t number = 0;  // of the recorder's places or host blocks

    friend bool operator==(const output_place&, const output_place&) = default;
};

// Memory that is another at each launch.
struct compiled_graph::slot {
    bool is_host = false;
    std::size_t number = 0;    // of the recorder's places or host blocks
    std::uint32_t memory = 0;  // in the graph's list
    std::size_t bytes = 0;
    bool is_output = false;
    bool is_written = false;
    const void* learned_at = nullptr;
};

struct compiled_graph::recorded {
    command_graph graph;
    std::vector<output_place> outputs;
    std::vector<std::size_t> input_numbers;  // of the recorder's places or host blocks
    bool records_each = false;
};

// As learned: what a recording of an instance starts from.
struct compiled_graph::layout {
    command_graph graph;
    std::vector<output_place> outputs;
    struct place {
        std::size_t bytes;
        std::size_t offset;  // in the arena
        std::size_t slot;    // no_slot: in the arena
    };
    std::vector<place> places;
    std::size_t arena_bytes = 0;
};

namespace {

// Names of commands live for ever: traces and errors keep them.
std::string_view for_ever(const std::string& name) {
    static std::mutex mutex;
    static auto& all = *new std::set<std::string, std::less<>>;  // never destroyed
    const std::lock_guard lock(mutex);
    return *all.insert(name).first;
}

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

constexpr std::size_t no_slot = ~std::size_t{0};

void copy_inside(stream& on, std::string_view name, storage& to, storage& from, std::size_t bytes) {
    const std::array accesses{memory_access{&from, access_mode::read}, memory_access{&to, access_mode::write}};
    on.copy({name, accesses}, {to.data(), from.data(), bytes, copy_direction::device_to_device, {}});
}

bool is_idle(const storage& memory) {
    bool idle = memory.use_count() == 1;
    memory.for_each_last_use(
        [&](const stream_point& use) { idle = idle && use.where->passed() >= use.where->reached(use.upto); });
    return idle;
}

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

compiled_graph::compiled_graph(device& on, std::vector<graph_input> inputs, graph_options options,
                               source_location where)
    : device_(on),
      inputs_(std::move(inputs)),
      options_(std::move(options)),
      name_(for_ever(options_.name)),
      where_(where),
      id_(next_id()) {
    if (options_.replicas == 0)
        throw error(errc::invalid_argument, "a graph has at least one replica", {name_, on.name(), where});
}

compiled_graph::~compiled_graph() = default;

const command_graph& compiled_graph::commands() const noexcept { return instances_.front()->program->commands(); }

// --- recording -----------------------------------------------------------------------------------------------

compiled_graph::recorded compiled_graph::record_into(graph_recorder& recorder, const graph_function& record,
                                                     std::span<const storage_ref> host_inputs,
                                                     graph_recording::purpose what) const {
    recorded made;
    stream& on = recorder.recording();
    {
        execution_context context(on);
        std::vector<storage_ref> given;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const std::size_t bytes = inputs_[i].bytes;
            if (inputs_[i].is_from_host) {
                made.input_numbers.push_back(recorder.host_blocks().size());
                const storage_ref block = host_inputs.empty() ? on.allocate_host(bytes, {"input"})
                                                              : recorder.adopt_host(host_inputs[i], bytes, {"input"});
                given.push_back(on.allocate(bytes, {"input"}));
                const std::array accesses{memory_access{block.get(), access_mode::read},
                                          memory_access{given.back().get(), access_mode::write}};
                if (bytes != 0) {
                    on.copy({"upload", accesses, where_},
                            {given.back()->data(), block->data(), bytes, copy_direction::host_to_device, {}});
                }
                continue;
            }
            made.input_numbers.push_back(recorder.places().size());
            given.push_back(on.allocate(bytes, {"input"}));
            if (!copies_in_.empty() && copies_in_[i]) {
                storage_ref inner = on.allocate(bytes, {"input"});
                if (bytes != 0) copy_inside(on, "copy in", *inner, *given.back(), bytes);
                given.back() = std::move(inner);
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
                    if (bytes != 0) copy_inside(on, "copy out", *out, *memory, bytes);
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

void compiled_graph::learn(const graph_function& record) {
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
        const graph_function& again = record;
        for (std::size_t i = 0; i < options_.replicas; ++i) instances_.push_back(make_instance(again));
        return;
    }
}

void compiled_graph::compile(const graph_function& record) { learn(record); }

std::unique_ptr<graph_instance> compiled_graph::make_instance(const graph_function& record) const {
    auto made = std::make_unique<graph_instance>();
    const command_info info{name_, {}, where_};
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

// --- launching ----------------------------------------------------------------------------------------------

graph_instance& compiled_graph::pick(bool is_recording) {
    // Inside another graph what is in flight decides nothing: each recording of that must be the same.
    if (is_recording) return *instances_.front();
    const auto is_free = [](const graph_instance& each) {
        return each.last.where == nullptr || each.last.where->passed() >= each.last.upto;
    };
    for (std::size_t i = 0; i < instances_.size(); ++i) {
        const std::size_t at = (turn_ + i) % instances_.size();
        if (!is_free(*instances_[at])) continue;
        turn_ = at + 1;
        instances_[at]->program->nothing_runs();
        return *instances_[at];
    }
    graph_instance& next = *instances_[turn_++ % instances_.size()];
    if (options_.busy == when_busy::refuse) {
        next.last.where->poll();
        if (!is_free(next)) {
            throw error(errc::graph_refused, "all replicas of the graph are running; ask for more of them",
                        {name_, device_.name(), where_});
        }
    }
    return next;
}

// However a launch ends: what it used is let go; and what a recording gave is not for launches.
struct compiled_graph::launch_end {
    compiled_graph& of;
    graph_instance& in;
    bool is_recording;

    ~launch_end() {
        of.used_.clear();
        for (recording_layout::place& each : in.layout.places) each.memory = {};
        for (std::size_t s = 0; is_recording && s < in.bindings.size(); ++s) in.bindings[s].held = {};
    }
};

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
                    {name_, device_.name(), where_});
    }
}

compiled_graph::launch_result compiled_graph::submit(execution_context& context, std::span<const graph_feed> feeds,
                                                     const graph_function& record) {
    stream& on = context.stream();
    const bool is_recording = on.queue().recorder() != nullptr;
    if (&on.owner() != &device_) {
        throw error(errc::invalid_argument,
                    "was compiled for " + device_.name() + " and is launched on " + on.owner().name(),
                    {name_, on.owner().name(), where_});
    }
    graph_instance& in = pick(is_recording);
    const command_info info{name_, {}, where_};
    bool must_record = in.version != version_ || records_each_;
    std::vector<storage_ref>& used = used_;  // kept until the command is out
    used.assign(slots_.size(), {});
    const launch_end at_the_end{*this, in, is_recording};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const std::size_t s = input_slots_[i];
        graph_instance::binding& bound = in.bindings[s];
        if (feeds[i].memory) {
            used[s] = feeds[i].memory;
        } else {
            if (is_recording || !bound.held || !is_idle(*bound.held)) {
                bound.held = on.allocate_host(slots_[s].bytes, info);
            } else {
                bound.held->touched_by_host(access_mode::write);
            }
            if (slots_[s].bytes != 0) std::memcpy(bound.held->data(), feeds[i].bytes, slots_[s].bytes);
            used[s] = bound.held;
        }
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        graph_instance::binding& bound = in.bindings[s];
        if (slots_[s].is_output) {
            if (is_recording || !bound.held || bound.held->use_count() != 1) {
                bound.held =
                    slots_[s].is_host ? on.allocate_host(slots_[s].bytes, info) : on.allocate(slots_[s].bytes, info);
            }
            bound.held->hang_on({});  // what was there does not matter any more
            used[s] = bound.held;
        }
        if (!must_record) must_record = !in.bind(s, used[s].get());
    }

    launch_result result;
    if (must_record) {
        record_again(in, used, record);
        result.is_recorded = records_each_;
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) in.memory[slots_[s].memory] = in.bindings[s].used;
    in.accesses.clear();
    if (layout_->arena_bytes != 0) in.accesses.push_back({in.arena.get(), access_mode::write});
    for (const graph_recorder::outside_memory& each : in.outside) in.accesses.push_back({each.memory.get(), each.mode});
    for (const graph_recorder::place& each : in.host_blocks) {
        if (each.memory) in.accesses.push_back({each.memory.get(), access_mode::write});
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        in.accesses.push_back({in.bindings[s].used, slots_[s].is_written ? access_mode::write : access_mode::read});
    }
    if (!is_recording) result.change = in.program->flush();
    const auto shared = std::ranges::find(instances_, &in, [](const auto& each) { return each.get(); });
    const ticket number = on.graph({name_, in.accesses, where_}, {in.program.get(), in.memory, *shared});
    if (!is_recording) in.last = on.point(number);
    outputs_.clear();
    for (const std::size_t s : output_slots_) outputs_.push_back(s != no_slot ? used[s] : storage_ref());
    result.outputs = outputs_;
    return result;
}

void compiled_graph::record_again(graph_instance& in, std::vector<storage_ref>& used, const graph_function& record) {
    for (std::size_t i = 0; i < layout_->places.size(); ++i) {
        const std::size_t s = layout_->places[i].slot;
        if (s != no_slot) in.layout.places[i].memory = used[s];
    }
    std::vector<storage_ref> host_inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) host_inputs.push_back(used[input_slots_[i]]);
    graph_recorder recorder(device_, &in.layout, id_);
    recorded again =
        record_into(recorder, record, host_inputs,
                    records_each_ ? graph_recording::purpose::one_launch : graph_recording::purpose::replaying);
    require_as_learned(again);
    std::vector<std::vector<address_site>> sites(slots_.size());
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        // The blocks of downloads are as fresh as the recording.
        if (slots_[s].is_host && slots_[s].is_output) used[s] = recorder.host_blocks()[slots_[s].number].memory;
        sites[s] = find_sites(again.graph, slots_[s].memory, used[s]->data(), slots_[s].bytes);
    }
    in.program->update(std::move(again.graph));
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        graph_instance::binding& bound = in.bindings[s];
        bound.are_sites_known = std::ranges::equal(sites[s], bound.sites | std::views::filter([&](const auto& each) {
                                                                 return each.offset < slots_[s].bytes;
                                                             }));
        bound.used = used[s].get();
        bound.address = used[s]->data();
        if (slots_[s].is_output) bound.held = used[s];
    }
    keep(in, recorder);
    in.version = version_;
}

graph_change compiled_graph::update(const graph_function& record) {
    ++version_;
    if (!is_as_learned(record)) {
        // Another plan, other places: as if compiled anew. Launches in flight keep what they run.
        compiled_graph fresh(device_, inputs_, options_, where_);
        fresh.compile(record);
        std::swap(copies_in_, fresh.copies_in_);
        std::swap(copies_out_, fresh.copies_out_);
        std::swap(slots_, fresh.slots_);
        std::swap(input_slots_, fresh.input_slots_);
        std::swap(output_slots_, fresh.output_slots_);
        std::swap(layout_, fresh.layout_);
        std::swap(records_each_, fresh.records_each_);
        std::swap(memory_bytes_, fresh.memory_bytes_);
        std::swap(instances_, fresh.instances_);
        std::swap(id_, fresh.id_);
        node_count_.store(layout_->graph.nodes.size(), std::memory_order_relaxed);
        for (const auto& each : instances_) each->version = version_;
        return graph_change::instantiated;
    }
    graph_change most = graph_change::none;
    const command_info info{name_, {}, where_};
    for (const auto& each : instances_) {
        std::vector<storage_ref> used;
        for (std::size_t s = 0; s < slots_.size(); ++s) {
            if (each->bindings[s].held) {
                used.push_back(each->bindings[s].held);
            } else {
                used.push_back(slots_[s].is_host ? device_.host_pool().allocate(slots_[s].bytes, nullptr, info)
                                                 : device_.device_pool().allocate(slots_[s].bytes, nullptr, info));
            }
        }
        const launch_end at_the_end{*this, *each, false};
        record_again(*each, used, record);
        most = std::max(most, each->program->flush());
    }
    return most;
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

void compiled_graph::set_enabled(std::string_view name, bool enabled) {
    bool is_there = false;
    for (const auto& each : instances_) {
        const std::vector<graph_node>& nodes = each->program->commands().nodes;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (nodes[i].operation != name && nodes[i].name != name) continue;
            const bool can_be = std::holds_alternative<copy_command>(nodes[i].what) ||
                                std::holds_alternative<fill_command>(nodes[i].what) ||
                                std::holds_alternative<launch_command>(nodes[i].what);
            if (!can_be) {
                throw error(errc::graph_refused, "only copies, fills and kernels can be disabled",
                            {nodes[i].name, device_.name(), nodes[i].where});
            }
            is_there = true;
        }
    }
    if (!is_there) {
        throw error(errc::graph_refused, "the graph has no node named " + std::string(name),
                    {name_, device_.name(), where_});
    }
    for (const auto& each : instances_) {
        const std::vector<graph_node>& nodes = each->program->commands().nodes;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (nodes[i].operation == name || nodes[i].name == name) each->program->set_enabled(i, enabled);
        }
    }
}

}  // namespace sluice::detail
