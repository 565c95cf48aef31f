#include "sluice/graph/compiled_graph.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ranges>
#include <utility>

#include "graph/graph_instance.hpp"
#include "graph/graph_layout.hpp"
#include "graph/graph_recorder.hpp"
#include "sluice/graph/graph_input.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::detail {

namespace {

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

bool is_idle(const storage& memory) {
    bool idle = memory.use_count() == 1;
    memory.for_each_last_use(
        [&](const stream_point& use) { idle = idle && use.where->passed() >= use.where->reached(use.upto); });
    return idle;
}

}  // namespace

void require_pieces(const shape& whole, std::span<const std::size_t> rows) {
    std::size_t sum = 0, fitting = 0;
    for (const std::size_t each : rows) {
        if (each == 0 && whole.rows() != 0)
            throw error(errc::invalid_argument, "a piece of an input has at least one row", {"graph"});
        if (each > whole.rows() - sum) break;  // that many would not fit, whatever the sum
        sum += each;
        ++fitting;
    }
    if (whole.rank() == 2 && sum == whole.rows() && fitting == rows.size() && fitting != 0) return;
    std::string pieces;
    for (const std::size_t each : rows) pieces += (pieces.empty() ? "" : " + ") + std::to_string(each);
    throw error(errc::shape_mismatch, "pieces of " + pieces + " rows are no input of shape " + to_string(whole),
                {"graph"});
}

compiled_graph::compiled_graph(device& on, std::vector<graph_input> inputs, graph_options options,
                               source_location where, graph_use use)
    : device_(on), inputs_(std::move(inputs)), options_(std::move(options)), where_(where), use_(use), id_(next_id()) {
    const error_context context{options_.name, on.name(), where};
    if (options_.replicas == 0) throw error(errc::invalid_argument, "a graph has at least one replica", context);
    if (use == graph_use::by_kernels && options_.replicas != 1)
        throw error(errc::invalid_argument, "a graph that kernels launch has one replica", context);
    if (use == graph_use::by_kernels && options_.busy == when_busy::refuse)
        throw error(errc::invalid_argument, "a graph that kernels launch refuses no launch by the host", context);
}

compiled_graph::~compiled_graph() = default;

// The name of a command lives for ever, so that the user's is its operation's.
command_info compiled_graph::command() const noexcept {
    command_info info{"graph", {}, where_};
    info.operation = options_.name;
    return info;
}

const void* compiled_graph::launch_handle() const noexcept { return instances_.front()->program->launch_handle(); }

const command_graph& compiled_graph::commands() const noexcept { return instances_.front()->program->commands(); }

graph_instance& compiled_graph::pick(bool is_recording) {
    // Inside another graph what is in flight decides nothing: each recording of that must be the same.
    if (is_recording) return *instances_.front();
    const auto is_free = [](const graph_instance& each) {
        return each.last.where == nullptr || each.last.where->passed() >= each.last.upto;
    };
    const auto free_one = [&]() -> graph_instance* {
        for (std::size_t i = 0; i < instances_.size(); ++i) {
            const std::size_t at = (turn_ + i) % instances_.size();
            if (!is_free(*instances_[at])) continue;
            turn_ = at + 1;
            instances_[at]->program->nothing_runs();
            return instances_[at].get();
        }
        return nullptr;
    };
    if (graph_instance* const one = free_one()) return *one;
    if (options_.busy == when_busy::wait) return *instances_[turn_++ % instances_.size()];
    // How far the streams are is known only by asking.
    for (const auto& each : instances_) each->last.where->poll();
    if (graph_instance* const one = free_one()) return *one;
    throw error(errc::graph_refused, "all replicas of the graph are running; ask for more of them",
                {options_.name, device_.name(), where_});
}

// However a launch ends: what it used is let go; and what a recording gave is not for launches.
struct compiled_graph::launch_end {
    compiled_graph& of;
    graph_instance& in;
    bool is_recording;

    ~launch_end() {
        of.used_.clear();
        for (recording_layout::place& each : in.layout.places) each.memory = {};
        in.layout.host_blocks.clear();
        for (std::size_t s = 0; is_recording && s < in.bindings.size(); ++s) in.bindings[s].held = {};
    }
};

compiled_graph::launch_result compiled_graph::submit(execution_context& context, std::span<graph_feed> feeds,
                                                     const graph_function& record) {
    stream& on = context.stream();
    const bool is_recording = on.queue().recorder() != nullptr;
    if (&on.owner() != &device_) {
        throw error(errc::invalid_argument,
                    "was compiled for " + device_.name() + " and is launched on " + on.owner().name(),
                    {options_.name, on.owner().name(), where_});
    }
    if (is_recording && use_ == graph_use::by_kernels) {
        throw error(errc::graph_refused,
                    "a graph that kernels launch cannot be a part of another; a kernel of that launches it",
                    {options_.name, device_.name(), where_});
    }
    graph_instance& in = pick(is_recording);
    const command_info info = command();
    bool must_record = in.version != version_ || records_each_;
    std::vector<storage_ref>& used = used_;  // kept until the command is out
    used.resize(slots_.size());
    const launch_end at_the_end{*this, in, is_recording};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const std::size_t s = input_slots_[i];
        graph_instance::binding& bound = in.bindings[s];
        if (feeds[i].memory) {
            used[s] = std::move(feeds[i].memory);
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
    in.accesses.clear();
    if (layout_->arena_bytes != 0) in.accesses.push_back({in.arena.get(), access_mode::write});
    command_info launched = info;
    for (const graph_recorder::outside_memory& each : in.outside) {
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
            throw error(errc::invalid_argument,
                        "is given memory of " + memory->owner().name() + "; copy it to " + device_.name() + " first",
                        {options_.name, device_.name(), where_});
        }
        in.accesses.push_back({memory, slots_[s].is_written ? access_mode::write : access_mode::read});
    }
    if (!is_recording) result.change = in.program->flush();
    const auto shared = std::ranges::find(instances_, &in, [](const auto& each) { return each.get(); });
    launched.accesses = in.accesses;
    const ticket number = on.graph(launched, {in.program.get(), in.memory, *shared});
    if (!is_recording) in.last = on.point(number);
    outputs_.clear();
    for (const std::size_t s : output_slots_) outputs_.push_back(s != no_slot ? used[s] : storage_ref());
    result.outputs = outputs_;
    return result;
}

// What is recorded in the place of a slot's memory: that itself, or, where it is known to the recording already (it is
// given for two inputs, or was captured), something else at the same address.
storage_ref compiled_graph::stand_in(const graph_instance& in, std::span<const storage_ref> used, std::size_t s) const {
    const storage_ref& real = used[s];
    const auto is_real = [&](const storage_ref& each) { return each.get() == real.get(); };
    const bool is_twice =
        std::ranges::any_of(used.first(s), is_real) ||
        std::ranges::any_of(in.outside, is_real, [](const auto& each) -> const storage_ref& { return each.memory; });
    if (slots_[s].is_output || !is_twice) return real;
    memory_pool& pool = slots_[s].is_host ? device_.host_pool() : device_.device_pool();
    return storage_ref(new storage(pool, real->data(), slots_[s].bytes, storage::planned{}));
}

void compiled_graph::record_again(graph_instance& in, std::vector<storage_ref>& used, const graph_function& record) {
    for (std::size_t i = 0; i < layout_->places.size(); ++i) {
        const std::size_t s = layout_->places[i].slot;
        if (s != no_slot) in.layout.places[i].memory = stand_in(in, used, s);
    }
    for (std::size_t s = 0; s < slots_.size() && !records_each_; ++s) {
        if (!slots_[s].is_host || !slots_[s].is_output) continue;
        in.layout.host_blocks.resize(std::max(in.layout.host_blocks.size(), slots_[s].number + 1));
        in.layout.host_blocks[slots_[s].number] = used[s];
    }
    std::vector<storage_ref> host_inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        host_inputs.push_back(inputs_[i].is_from_host ? stand_in(in, used, input_slots_[i]) : storage_ref());
    graph_recorder recorder(device_, &in.layout, id_);
    recorded again =
        record_into(recorder, record, host_inputs,
                    records_each_ ? graph_recording::purpose::one_launch : graph_recording::purpose::replaying);
    require_as_learned(again);
    std::vector<std::vector<address_site>> sites(slots_.size());
    for (std::size_t s = 0; s < slots_.size(); ++s) {
        // Where a recording's own outputs are given away, the blocks of downloads are as fresh as it is.
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
        const launch_end at_the_end{*this, *each, false};
        record_again(*each, used, record);
        most = std::max(most, each->program->flush());
    }
    return most;
}

void compiled_graph::set_enabled(std::string_view name, bool enabled) {
    std::vector<std::size_t> numbers;  // the same in all replicas
    const std::vector<graph_node>& nodes = commands().nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].operation != name && nodes[i].name != name) continue;
        const bool can_be = std::holds_alternative<copy_command>(nodes[i].what) ||
                            std::holds_alternative<fill_command>(nodes[i].what) ||
                            std::holds_alternative<launch_command>(nodes[i].what);
        if (!can_be) {
            throw error(errc::graph_refused, "only copies, fills and kernels can be disabled",
                        {nodes[i].name, device_.name(), nodes[i].where});
        }
        numbers.push_back(i);
    }
    if (numbers.empty()) {
        throw error(errc::graph_refused, "the graph has no node named " + std::string(name),
                    {options_.name, device_.name(), where_});
    }
    for (const auto& each : instances_) {
        for (const std::size_t number : numbers) each->program->set_enabled(number, enabled);
    }
}

}  // namespace sluice::detail
