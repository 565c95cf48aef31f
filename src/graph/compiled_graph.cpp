// SPDX-License-Identifier: Apache-2.0
#include "sluice/graph/compiled_graph.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ranges>
#include <utility>

#include "graph/graph_instance.hpp"
#include "graph/graph_recorder.hpp"
#include "graph/learned_graph.hpp"
#include "runtime/exclusive_use.hpp"
#include "sluice/base/error.hpp"
#include "sluice/graph/graph_input.hpp"

namespace sluice::detail {

namespace {

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

bool is_idle(const storage& memory) {
    bool idle = memory.use_count() == 1;
    memory.for_each_last_use(
        [&](const stream_point& use) { idle = idle && use.queue->passed() >= use.queue->reached(use.upto); });
    return idle;
}

}  // namespace

void require_pieces(const shape& whole, std::span<const std::size_t> rows) {
    std::size_t sum = 0, fitting = 0;
    for (const std::size_t each : rows) {
        if (each == 0 && whole.rows() != 0)
            throw error(errc::invalid_argument, "each piece of an input must have at least one row", {"graph"});
        if (each > whole.rows() - sum) break;  // more rows than are left; stopping here avoids overflow
        sum += each;
        ++fitting;
    }
    if (whole.rank() == 2 && sum == whole.rows() && fitting == rows.size() && fitting != 0) return;
    std::string pieces;
    for (const std::size_t each : rows) pieces += (pieces.empty() ? "" : " + ") + std::to_string(each);
    throw error(errc::shape_mismatch,
                "pieces of " + pieces + " rows do not add up to an input of shape " + to_string(whole), {"graph"});
}

compiled_graph::compiled_graph(device& on, std::vector<graph_input> inputs, graph_options options,
                               source_location location, graph_use use)
    : device_(on),
      inputs_(std::move(inputs)),
      options_(std::move(options)),
      location_(location),
      use_(use),
      id_(next_id()) {
    const error_context context{options_.name, on.name(), location};
    if (options_.replicas == 0) throw error(errc::invalid_argument, "a graph needs at least one replica", context);
    if (use == graph_use::by_kernels && options_.replicas != 1)
        throw error(errc::invalid_argument, "a graph that kernels launch must have exactly one replica", context);
    if (use == graph_use::by_kernels && options_.busy == when_busy::refuse)
        throw error(errc::invalid_argument, "a graph that kernels launch cannot refuse launches: use when_busy::wait",
                    context);
}

compiled_graph::~compiled_graph() = default;

void compiled_graph::wait_unlocked(int calls) const {
    if (holds_a_lock()) throw;  // the launch is a part of another graph's: that one waits
    try {
        throw;
    } catch (const memory_in_use& used) {
        used.wait();  // however often other threads use the memory again in between: each time some of them are over
    } catch (const out_of_memory& failure) {
        constexpr int most_calls = 16;  // other threads may take the memory each time
        if (calls == most_calls) throw;
        // Either pool may be the one that is short.
        const std::size_t bytes = failure.requested_bytes();
        const bool is_there = device_.device_pool().make_room(bytes);
        if (!device_.host_pool().make_room(bytes) && !is_there) throw;
    }
}

void compiled_graph::block_if_asked(stream on) { on.queue().block_if_asked(on.issued()); }

// The name of a command must live for ever, so the command has a fixed name and the user's name is the operation's.
command_info compiled_graph::command() const noexcept {
    command_info info{"graph", {}, location_};
    info.operation = options_.name;
    return info;
}

const command_graph& compiled_graph::commands() const noexcept { return instances_.front()->program->commands(); }

const std::vector<address_site>* compiled_graph::input_sites(std::size_t input) const noexcept {
    const graph_instance& in = *instances_.front();
    const std::size_t s = input_slots_[input];
    if (in.is != graph_instance::state::understood || slots_[s].is_host || slots_[s].is_written) return nullptr;
    return &in.bindings[s].sites;
}

graph_instance& compiled_graph::pick() {
    const auto is_free = [](const graph_instance& each) {
        return each.last.queue == nullptr || each.last.queue->passed() >= each.last.upto;
    };
    const auto free_one = [&]() -> graph_instance* {
        for (std::size_t i = 0; i < instances_.size(); ++i) {
            const std::size_t at = (turn_ + i) % instances_.size();
            if (!is_free(*instances_[at])) continue;
            turn_ = at + 1;
            return instances_[at].get();
        }
        return nullptr;
    };
    if (graph_instance* const one = free_one()) return *one;
    if (options_.busy == when_busy::wait) return *instances_[turn_++ % instances_.size()];
    // passed() is only refreshed by a poll.
    for (const auto& each : instances_) each->last.queue->poll();
    if (graph_instance* const one = free_one()) return *one;
    throw error(errc::graph_refused,
                "all replicas of the graph are running; raise graph_options::replicas, or use when_busy::wait",
                {options_.name, device_.name(), location_});
}

// However a launch ends, drops the references to its memory.
struct compiled_graph::launch_end {
    compiled_graph& of;
    graph_instance& in;

    ~launch_end() {
        of.used_.clear();
        for (recording_layout::place& each : in.layout.places) each.memory = {};
        in.layout.host_blocks.clear();
    }
};

void compiled_graph::require_launch_on(stream on) const {
    if (&on.owner() != &device_) {
        throw error(errc::invalid_argument,
                    "the graph was compiled for " + device_.name() + " and cannot be launched on " + on.owner().name(),
                    {options_.name, on.owner().name(), location_});
    }
    if (use_ == graph_use::by_kernels && graph_recorder::of(on) != nullptr) {
        throw error(
            errc::graph_refused,
            "a graph that kernels launch cannot become part of another graph; a kernel of that graph must launch it",
            {options_.name, device_.name(), location_});
    }
}

bool compiled_graph::join_recording(stream on, std::shared_ptr<const void> function) const {
    require_launch_on(on);
    graph_recorder* const recorder = graph_recorder::of(on);
    if (recorder != nullptr) recorder->keep(std::move(function));
    return recorder != nullptr;
}

std::vector<storage_ref> compiled_graph::take_in(stream on, const graph_input& input, launch_input feed) const {
    if (!input.is_from_host) {
        return {feed.memory ? std::move(feed.memory) : on.allocate(input.bytes, {"input"})};
    }
    if (!feed.memory) {
        feed.memory = on.allocate_host(input.bytes, {"input"});
        if (input.bytes != 0) std::memcpy(feed.memory->data(), feed.bytes, input.bytes);
    }
    return upload_input(on, input, *feed.memory);
}

// Collects the memory of this launch, by slot.
void compiled_graph::take_memory(graph_instance& in, stream on, std::span<launch_input> feeds) {
    const command_info info = command();
    used_.resize(slots_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const std::size_t s = input_slots_[i];
        graph_instance::binding& bound = in.bindings[s];
        if (feeds[i].memory) {
            used_[s] = std::move(feeds[i].memory);
            continue;
        }
        if (!bound.held || !is_idle(*bound.held)) {
            bound.held = on.allocate_host(slots_[s].bytes, info);
        } else {
            bound.held->on_host_access(access_mode::write);
        }
        if (slots_[s].bytes != 0) std::memcpy(bound.held->data(), feeds[i].bytes, slots_[s].bytes);
        used_[s] = bound.held;
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        graph_instance::binding& bound = in.bindings[s];
        if (!slots_[s].is_output) continue;
        if (!bound.held || bound.held->use_count() != 1)
            bound.held =
                slots_[s].is_host ? on.allocate_host(slots_[s].bytes, info) : on.allocate(slots_[s].bytes, info);
        bound.held->depend_on({});  // the old contents, and their failure, no longer matter
        used_[s] = bound.held;
    }
}

compiled_graph::launch_result compiled_graph::submit(execution_context& context, std::span<launch_input> feeds,
                                                     const graph_function& record) {
    stream on = context.stream();
    require_launch_on(on);
    graph_instance& in = pick();
    const launch_end at_the_end{*this, in};
    take_memory(in, on, feeds);
    // A graph that kernels launch has no memory that changes.
    bool must_record = use_ == graph_use::by_host &&
                       (in.version != version_ || records_each_launch_ || in.is == graph_instance::state::odd);
    const auto is_elsewhere = [&](std::size_t s) { return in.bindings[s].address != used_[s]->data(); };
    const auto all = std::views::iota(std::size_t{0}, slots_.size());
    if (!must_record) must_record = std::ranges::any_of(all, is_elsewhere) && !can_patch_addresses(in, record);

    launch_result result;
    if (must_record) {
        record_again(in, used_, record);
        result.is_recorded = records_each_launch_;
    } else {
        for (const std::size_t s : all) in.bind(s, used_[s].get());
    }
    const command_info launched = name_accesses(in);
    result.change = in.program->flush();
    note_change(result.change, *in.program);
    if (result.change >= graph_change::whole_graph) log_update(result.change);
    const auto shared = std::ranges::find(instances_, &in, [](const auto& each) { return each.get(); });
    in.last = on.point(on.graph(launched, {in.program.get(), in.memory, *shared}));
    outputs_.clear();
    for (const std::size_t s : output_slots_) outputs_.push_back(s != no_slot ? used_[s] : storage_ref());
    result.outputs = outputs_;
    return result;
}

// The command of this launch, with all its accesses.
command_info compiled_graph::name_accesses(graph_instance& in) {
    command_info launched = command();
    in.accesses.clear();
    if (layout_->arena_bytes != 0) in.accesses.push_back({in.arena.get(), access_mode::write});
    for (const graph_recorder::external_memory& each : in.outside) {
        in.accesses.push_back({each.memory.get(), each.mode});
        launched.spans_devices |= &each.memory->owner() != &device_;  // a collective inside
    }
    for (const graph_recorder::place& each : in.host_blocks) {
        if (each.memory) in.accesses.push_back({each.memory.get(), access_mode::write});
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        storage* const memory = in.bindings[s].used;
        in.memory[slots_[s].memory] = memory;
        if (launched.spans_devices && &memory->owner() != &device_) {
            throw error(
                errc::invalid_argument,
                "the graph received memory of " + memory->owner().name() + "; copy it to " + device_.name() + " first",
                {options_.name, device_.name(), location_});
        }
        in.accesses.push_back({memory, slots_[s].is_written ? access_mode::write : access_mode::read});
    }
    launched.accesses = in.accesses;
    return launched;
}

// The memory to record for a slot: its real memory, or a second storage at the same address when the recording already
// refers to the real one (it is passed for two inputs, or was captured).
storage_ref compiled_graph::storage_to_record(const graph_instance& in, std::span<const storage_ref> used,
                                              std::size_t s) const {
    const storage_ref& real = used[s];
    const auto is_real = [&](const storage_ref& each) { return each.get() == real.get(); };
    const bool is_twice =
        std::ranges::any_of(used.first(s), is_real) ||
        std::ranges::any_of(in.outside, is_real, [](const auto& each) -> const storage_ref& { return each.memory; });
    if (slots_[s].is_output || !is_twice) return real;
    memory_pool& pool = slots_[s].is_host ? device_.host_pool() : device_.device_pool();
    return storage_ref::adopt(new storage(pool, real->data(), slots_[s].bytes, storage::planned{}));
}

void compiled_graph::record_again(graph_instance& in, std::vector<storage_ref>& used, const graph_function& record) {
    for (std::size_t i = 0; i < layout_->places.size(); ++i) {
        const std::size_t s = layout_->places[i].slot;
        if (s != no_slot) in.layout.places[i].memory = storage_to_record(in, used, s);
    }
    for (std::size_t s = 0; s < slots_.size() && !records_each_launch_; ++s) {
        if (!slots_[s].is_host || !slots_[s].is_output) continue;
        in.layout.host_blocks.resize(std::max(in.layout.host_blocks.size(), slots_[s].number + 1));
        in.layout.host_blocks[slots_[s].number] = used[s];
    }
    std::vector<storage_ref> host_inputs;
    host_inputs.reserve(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        host_inputs.push_back(inputs_[i].is_from_host ? storage_to_record(in, used, input_slots_[i]) : storage_ref());
    graph_recorder recorder(device_, &in.layout, id_);
    recorded again =
        record_into(recorder, record, host_inputs,
                    records_each_launch_ ? graph_recording::purpose::one_launch : graph_recording::purpose::replaying);
    require_matches_plan(again);
    note_memory(in, recorder, again.graph);
    in.program->update(std::move(again.graph));
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        // When each launch is recorded, the blocks of its downloads are created by that recording.
        if (slots_[s].is_host && slots_[s].is_output) used[s] = recorder.host_blocks()[slots_[s].number].memory;
        graph_instance::binding& bound = in.bindings[s];
        bound.used = used[s].get();
        bound.address = used[s]->data();
        if (slots_[s].is_output) bound.held = used[s];
    }
    keep(in, recorder);
    // A new argument may change whether the recording can be understood.
    if (in.version != version_) in.is = graph_instance::state::unknown;
    in.version = version_;
}

graph_change compiled_graph::update(const graph_function& record) {
    ++version_;
    lesson learned(device_, id_);
    learned.made = record_into(learned.recorder, record, {}, graph_recording::purpose::learning);
    if (std::string why = other_plan(learned); !why.empty()) {
        // The plan or the places differ, so compile from scratch. Launches in flight keep the programs that they run.
        compiled_graph fresh(device_, inputs_, options_, location_);
        fresh.compile(record);
        std::swap(copies_in_, fresh.copies_in_);
        std::swap(copies_out_, fresh.copies_out_);
        std::swap(slots_, fresh.slots_);
        std::swap(input_slots_, fresh.input_slots_);
        std::swap(output_slots_, fresh.output_slots_);
        std::swap(layout_, fresh.layout_);
        std::swap(records_each_launch_, fresh.records_each_launch_);
        memory_bytes_.store(fresh.memory_bytes(), std::memory_order_relaxed);
        std::swap(instances_, fresh.instances_);
        std::swap(id_, fresh.id_);
        node_count_.store(layout_->graph.nodes.size(), std::memory_order_relaxed);
        for (const auto& each : instances_) each->version = version_;
        why_instantiated_ = std::move(why);
        log_update(graph_change::instantiated);
        return graph_change::instantiated;
    }
    graph_change most = graph_change::none;
    why_instantiated_.clear();
    const command_info info = command();
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
        const launch_end at_the_end{*this, *each};
        record_again(*each, used, record);
        understand(*each, each->program->commands(), learned);
        const graph_change change = each->program->flush();
        if (change >= most) note_change(change, *each->program);
        most = std::max(most, change);
    }
    log_update(most);
    return most;
}

void compiled_graph::note_change(graph_change change, const graph_program& of) {
    if (change == graph_change::instantiated) {
        why_instantiated_ = of.refusal();
    } else if (!why_instantiated_.empty()) {
        why_instantiated_.clear();
    }
}

}  // namespace sluice::detail
