// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_recorder.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

#include "runtime/group_launch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

// An address range in which nothing is, on any device or host: placeholders for places whose address is not known yet.
// Their distances differ from all distances between real memory, so a value that a closure computed from addresses
// differs when the places are elsewhere.
constexpr std::uintptr_t first_address = std::uintptr_t{1} << 61;
constexpr std::uintptr_t address_step = 512;
constexpr int bits_of_gap = 34;  // in units of address_step

// The finaliser of splitmix64.
std::uint64_t scatter(std::uint64_t number) noexcept {
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
    number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
    return number ^ (number >> 31);
}
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

constexpr std::string_view no_launches_inside =
    "a kernel inside a condition or a loop cannot launch graphs: it would run again before they complete";
constexpr std::string_view same_memory_launched =
    "the kernel can launch two graphs that use the same memory, so that they would run at the same time";
constexpr std::string_view sizes_differ =
    "the operation allocated other sizes when it was recorded again; they must not depend on anything, not even on "
    "its arguments (to change the operation, use update)";
constexpr std::string_view of_one_device = "a graph uses one device: copy before the graph or after it";
constexpr std::string_view no_host_code_inside = "host code cannot run inside a condition or a loop";

[[noreturn]] void refuse(const device& on, std::string_view name, const source_location& location,
                         std::string_view why) {
    throw error(errc::graph_refused, why, {name, on.name(), location});
}

}  // namespace

graph_recorder::graph_recorder(device& of, const recording_layout* layout, std::uint64_t graph_id)
    : device_(of), layout_(layout), queue_(of, *this), levels_(1), next_address_(first_address), graph_id_(graph_id) {}

graph_recorder::~graph_recorder() = default;

native_stream graph_recorder::native() const noexcept { return {device_.kind(), nullptr, &recording_.queue()}; }

// --- memory -------------------------------------------------------------------------------------------------

std::uint32_t graph_recorder::know(storage& memory, const graph_memory& as) {
    const auto index = static_cast<std::uint32_t>(memory_.size());
    indices_.emplace(&memory, index);
    storages_.push_back(&memory);
    memory_.push_back(as);
    return index;
}

storage_ref graph_recorder::allocate(std::size_t bytes, const command_info& info) {
    const std::size_t number = places_.size();
    storage_ref made;
    if (layout_ == nullptr) {
        made = storage_ref::adopt(
            new storage(device_.device_pool(), reinterpret_cast<void*>(next_address_), bytes, storage::planned{}));
        const std::uint64_t gap = scatter((number + 1) * golden) >> (64 - bits_of_gap);
        next_address_ += (bytes / address_step + 2 + gap) * address_step;
    } else {
        if (number >= layout_->places.size() || layout_->places[number].bytes != bytes)
            refuse(device_, info.name, info.location, sizes_differ);
        const recording_layout::place& destination = layout_->places[number];
        made = destination.memory ? destination.memory
                                  : storage_ref::adopt(new storage(device_.device_pool(), destination.address, bytes,
                                                                   storage::planned{}));
    }
    const std::uint32_t index = know(*made, {info.name, bytes, true});
    const bool is_given = layout_ != nullptr && layout_->places[number].memory;
    places_.push_back({made, bytes, index, info.name, info.location, is_given});
    return made;
}

storage_ref graph_recorder::allocate_host(std::size_t bytes, const command_info& info) {
    const std::size_t number = host_blocks_.size();
    const bool is_given = layout_ != nullptr && number < layout_->host_blocks.size() && layout_->host_blocks[number];
    return adopt_host(is_given ? layout_->host_blocks[number] : fresh_host_block(bytes, info), bytes, info);
}

storage_ref graph_recorder::fresh_host_block(std::size_t bytes, const command_info& info) {
    for (;;) {
        storage_ref block = device_.host_pool().allocate(bytes, nullptr, info);
        if (std::ranges::find(avoided_addresses_, block->data()) == avoided_addresses_.end()) return block;
        rejected_blocks_.push_back(std::move(block));
    }
}

storage_ref graph_recorder::adopt_host(const storage_ref& block, std::size_t bytes, const command_info& info) {
    const std::size_t number = host_blocks_.size();
    if (layout_ != nullptr && layout_->host_bytes &&
        (number >= layout_->host_bytes->size() || (*layout_->host_bytes)[number] != bytes))
        refuse(device_, info.name, info.location, sizes_differ);
    storage_ref made = block;
    const std::uint32_t index = know(*made, {info.name, bytes, true});
    host_blocks_.push_back({made, bytes, index, info.name, info.location});
    return made;
}

// Each call gets scratch memory of its own: shared scratch memory would make the calls run one after the other.
storage_ref graph_recorder::workspace(std::size_t bytes) {
    storage_ref made = allocate(bytes, {"workspace"});
    made->mark_scratch();
    return made;
}

const graph_recorder::place* graph_recorder::whole_place_of(const storage& named) const {
    if (named.whole() == nullptr || named.part_number() <= first_part_) return nullptr;
    const auto* const begin = static_cast<const std::byte*>(named.data());
    for (const place& each : places_) {
        if (each.memory.get() == named.whole()) return &each;
        // What a launch passes may itself be a part.
        const auto* const from = static_cast<const std::byte*>(each.memory->data());
        if (each.memory->whole() == named.whole() && begin >= from &&
            begin + named.capacity_bytes() <= from + each.bytes)
            return &each;
    }
    return nullptr;
}

std::uint32_t graph_recorder::index_of(storage& named, access_mode mode) {
    const place* const whole = whole_place_of(named);
    storage& memory = whole != nullptr ? *whole->memory : named;
    const auto known = indices_.find(&memory);
    const std::uint32_t index =
        known != indices_.end() ? known->second : know(memory, {"outside", memory.capacity_bytes(), false});
    if (known == indices_.end() && !memory.is_planned()) outside_.push_back({storage_ref(&memory), mode, index});
    return index;
}

// --- nodes and edges ---------------------------------------------------------------------------------------

// Leaves out an edge that others imply. Only data is implied by data: a node whose data is missing after a failure is
// skipped, and the order of the stream says nothing of that.
void graph_recorder::add_edge(graph_node& node, const graph_edge& edge) {
    const std::vector<graph_node>& nodes = levels_.back().graph.nodes;
    const bool is_order = edge.reason == edge_reason::stream_order;
    const auto comes_after = [&](std::uint32_t later, std::uint32_t earlier) {
        return std::ranges::any_of(nodes[later].after, [&](const graph_edge& each) {
            return each.from == earlier && (is_order || each.reason != edge_reason::stream_order);
        });
    };
    for (const graph_edge& known : node.after) {
        if (known.from == edge.from || comes_after(known.from, edge.from)) return;
    }
    if (!is_order)
        std::erase_if(node.after, [&](const graph_edge& known) { return comes_after(edge.from, known.from); });
    node.after.push_back(edge);
}

void graph_recorder::use(graph_node& node, std::uint32_t memory, access_mode mode) {
    level& here = levels_.back();
    if (here.used.size() <= memory) here.used.resize(memory_.size());
    uses& past = here.used[memory];
    if (const auto left = launched_.find(memory); left != launched_.end()) {
        refuse(device_, node.name, node.location,
               "uses memory of the graph that the kernel '" + std::string(left->second) +
                   "' may have launched earlier; that launch completes only with this graph");
    }
    // The node is already the last of the list.
    const auto number = static_cast<std::uint32_t>(here.graph.nodes.size() - 1);
    if (mode == access_mode::read) {
        node.reads.push_back(memory);
        past.is_read = true;
        if (past.last_write == number) return;
        if (past.last_write != nothing) add_edge(node, {past.last_write, memory, edge_reason::read_after_write});
        if (past.readers.empty() || past.readers.back() != number) past.readers.push_back(number);
        return;
    }
    node.writes.push_back(memory);
    past.is_written = true;
    std::erase(past.readers, number);
    if (!past.readers.empty()) {
        for (const std::uint32_t reader : past.readers) add_edge(node, {reader, memory, edge_reason::write_after_read});
    } else if (past.last_write != nothing && past.last_write != number) {
        add_edge(node, {past.last_write, memory, edge_reason::write_after_write});
    }
    past.readers.clear();
    past.last_write = number;
}

// A kernel that waits by itself may start while its predecessors run.
void graph_recorder::start_early(graph_node& node) {
    const auto* const launch = std::get_if<launch_command>(&node.what);
    if (launch == nullptr || !launch->early_start) return;
    for (graph_edge& each : node.after) {
        const auto* const before = std::get_if<launch_command>(&levels_.back().graph.nodes[each.from].what);
        each.is_programmatic = each.reason != edge_reason::stream_order && before != nullptr && !is_group(*before);
    }
}

// Whether the accesses order a command among the others. The result of a host call is new memory, and orders only what
// comes later.
bool graph_recorder::shares_data(const command_info& info, const graph_node::command& what) const {
    const bool is_host_call = std::holds_alternative<host_command>(what);
    return std::ranges::any_of(info.accesses, [&](const memory_access& used) {
        return used.memory != nullptr && (!is_host_call || used.mode == access_mode::read);
    });
}

// A command that shares no data runs in the order of its stream, as it does eagerly: after all earlier commands, and
// before all later ones. Host calls keep their order among each other, since host code may have effects elsewhere.
void graph_recorder::keep_order(graph_node& node, bool is_alone) {
    level& here = levels_.back();
    const auto number = static_cast<std::uint32_t>(here.graph.nodes.size() - 1);
    here.is_followed.resize(here.graph.nodes.size());
    const auto order_after = [&](std::uint32_t earlier) {
        add_edge(node, {earlier, graph_edge::no_memory, edge_reason::stream_order});
    };
    const auto comes_after_latest = [&](const graph_edge& each) { return each.from >= here.latest_alone; };
    const bool is_host_call = std::holds_alternative<host_command>(node.what);
    if (is_alone) {
        for (std::uint32_t i = here.latest_alone != nothing ? here.latest_alone : 0; i < number; ++i) {
            if (!here.is_followed[i]) order_after(i);
        }
        here.latest_alone = number;
    } else {
        if (is_host_call && here.latest_host_call != nothing) order_after(here.latest_host_call);
        if (here.latest_alone != nothing && std::ranges::none_of(node.after, comes_after_latest))
            order_after(here.latest_alone);
    }
    if (is_host_call) here.latest_host_call = number;
    for (const graph_edge& each : node.after) here.is_followed[each.from] = true;
}

// A node that comes after another one of those that the order holds for already comes after the earlier ones.
void graph_recorder::keep_explicit_order(graph_node& node) {
    level& here = levels_.back();
    const auto apply = [&](const order& each) {
        const auto is_in_order = [&](const graph_edge& edge) { return edge.from >= each.end; };
        if (each.level != here.id || std::ranges::any_of(node.after, is_in_order)) return;
        for (const std::uint32_t last : each.last) {
            add_edge(node, {last, graph_edge::no_memory, edge_reason::stream_order});
            here.is_followed[last] = true;
        }
    };
    std::ranges::for_each(here.orders, apply);
    std::ranges::for_each(orders_, apply);
}

void graph_recorder::begin_after(std::size_t first) {
    level& here = levels_.back();
    const auto end = static_cast<std::uint32_t>(here.graph.nodes.size());
    here.is_followed.resize(end);
    order made{here.id, end, {}};
    for (auto i = static_cast<std::uint32_t>(first); i < end; ++i) {
        if (!here.is_followed[i]) made.last.push_back(i);
    }
    orders_.push_back(std::move(made));
}

void graph_recorder::order_after_recorded(ticket earlier) {
    if (earlier == 0) return;
    const position& at = positions_[earlier - 1];
    for (level& each : levels_) {
        if (each.id == at.level)
            each.orders.push_back({each.id, static_cast<std::uint32_t>(each.graph.nodes.size()), {at.node}});
    }
}

graph_node& graph_recorder::add(const command_info& info, graph_node::command what) {
    const bool is_alone = !std::holds_alternative<conditional_command>(what) && !shares_data(info, what);
    std::vector<graph_node>& nodes = levels_.back().graph.nodes;
    nodes.push_back({std::move(what), info.name, std::string(info.operation), info.location, {}, {}, {}, 0, {}, {}});
    graph_node& node = nodes.back();
    for (const memory_access& used : info.accesses) {
        if (used.memory != nullptr) use(node, index_of(*used.memory, used.mode), used.mode);
    }
    if (std::holds_alternative<conditional_command>(node.what)) return node;  // its accesses are not known yet
    keep_order(node, is_alone);
    keep_explicit_order(node);
    positions_.resize(queue_.issued() + 1);
    positions_.back() = {levels_.back().id, static_cast<std::uint32_t>(nodes.size() - 1)};
    return node;
}

void graph_recorder::copy(const command_info& info, const copy_command& command) {
    if (command.source_device != nullptr) refuse(device_, info.name, info.location, of_one_device);
    add(info, command);
}

void graph_recorder::fill(const command_info& info, const fill_command& command) { add(info, command); }

void graph_recorder::launch(const command_info& info, const launch_command& command) {
    if (!command.launches.empty() && levels_.size() > 1) refuse(device_, info.name, info.location, no_launches_inside);
    command_info full = info;
    std::vector<memory_access> accesses;
    if (!command.launches.empty()) full.accesses = accesses = with_launched_memory(info, command);
    graph_node& node = add(full, command);
    std::get<launch_command>(node.what).launches = {};  // the node has copied what it needs
    if (command.function != nullptr) node.function = command.function->shared_from_this();
    node.closure_offset = levels_.back().graph.add_closure(command.closure, command.closure_bytes);
    start_early(node);
    std::vector<std::uint32_t> launched;
    for (const launched_graph& each : command.launches) {
        node.launched_owners.push_back(each.owner);
        for (storage* const memory : each.memory) {
            if (memory != nullptr) launched.push_back(index_of(*memory, access_mode::write));
        }
    }
    reserve_for_launched_graphs(node, std::move(launched));
}

// The number of storages that a launched graph uses is known only now, so the launch itself need not have named them.
std::vector<memory_access> graph_recorder::with_launched_memory(const command_info& info,
                                                                const launch_command& command) const {
    std::vector<memory_access> all(info.accesses.begin(), info.accesses.end());
    for (const launched_graph& each : command.launches) {
        const auto uses_it_too = [&](const launched_graph& other, const storage* memory) {
            return other.owner != each.owner && std::ranges::find(other.memory, memory) != other.memory.end();
        };
        for (storage* const memory : each.memory) {
            if (memory == nullptr) continue;
            if (std::ranges::any_of(command.launches, [&](const auto& other) { return uses_it_too(other, memory); }))
                refuse(device_, info.name, info.location, same_memory_launched);
            if (&memory->owner() != &device_) {
                throw error(
                    errc::invalid_argument,
                    "launches a graph of " + memory->owner().name() + "; a kernel launches graphs of its device",
                    {info.name, device_.name(), info.location});
            }
            const auto is_it = [&](const memory_access& known) {
                return known.memory == memory && known.mode == access_mode::write;
            };
            if (std::ranges::none_of(all, is_it)) all.push_back({memory, access_mode::write});
        }
    }
    return all;
}

// From here on these graphs may run, concurrently with this graph or after it: no other node may touch their memory.
void graph_recorder::reserve_for_launched_graphs(graph_node& by, std::vector<std::uint32_t> memory) {
    for (const std::uint32_t each : memory) launched_.emplace(each, by.name);
    by.launched = std::move(memory);
}

std::exception_ptr graph_recorder::library_call(const command_info& info, const library_command& command) {
    graph_node& node = add(info, command);
    node.closure_offset = levels_.back().graph.add_closure(command.closure, command.closure_bytes);
    return {};
}

void graph_recorder::host_call(const command_info& info, host_command command) {
    if (levels_.size() > 1) refuse(device_, info.name, info.location, no_host_code_inside);
    add(info, std::move(command));
}

// The recorder receives a launch of a compiled graph as the operation that was compiled, never as this command.
void graph_recorder::graph(const command_info& info, const graph_command&) {
    refuse(device_, info.name, info.location, "an instantiated program cannot become part of a graph");
}

void graph_recorder::begin_part() {
    levels_.emplace_back();
    levels_.back().id = next_level_++;
}

// A random-looking number that no closure holds by chance.
std::uint64_t graph_recorder::next_loop_mark() noexcept { return scatter((graph_id_ << 20 | ++loops_) * golden); }

void graph_recorder::end_part(const command_info& info, conditional_command::kind kind, storage& condition,
                              std::uint64_t mark) {
    level inner = std::move(levels_.back());
    levels_.pop_back();
    graph_node& node = add(info, conditional_command{kind, static_cast<const int*>(condition.data()),
                                                     std::make_shared<command_graph>(std::move(inner.graph)), mark});
    use(node, index_of(condition, access_mode::read), access_mode::read);
    for (std::uint32_t i = 0; i < inner.used.size(); ++i) {
        if (inner.used[i].is_written) {
            use(node, i, access_mode::write);
        } else if (inner.used[i].is_read) {
            use(node, i, access_mode::read);
        }
    }
    keep_order(node, inner.latest_alone != nothing);
    keep_explicit_order(node);
    // The commands of the body are over when this node is.
    const auto number = static_cast<std::uint32_t>(levels_.back().graph.nodes.size() - 1);
    for (position& each : positions_) {
        if (each.level == inner.id) each = {levels_.back().id, number};
    }
}

command_graph graph_recorder::finish() {
    const bool has_less =
        layout_ != nullptr && (places_.size() != layout_->places.size() ||
                               (layout_->host_bytes && host_blocks_.size() != layout_->host_bytes->size()));
    if (has_less) {
        refuse(device_, "graph", {}, "the operation allocated less memory when it was recorded again");
    }
    command_graph made = std::move(levels_.front().graph);
    const std::vector<uses>& used = levels_.front().used;
    for (external_memory& each : outside_) {
        if (each.index < used.size() && used[each.index].is_written) each.mode = access_mode::write;
        // Launches of this graph, and of graphs that contain it, write the memory; each is submitted under another
        // mutex.
        if (each.mode == access_mode::write && each.memory->lock() == nullptr)
            each.memory->share_among_writers(std::make_shared<access_lock>());
    }
    made.memory = memory_;
    made.owners = std::move(owners_);
    return made;
}

// --- what cannot be recorded -----------------------------------------------------------------------------------

ticket graph_recorder::order_after(stream_interpreter&, ticket) {
    refuse(device_, "wait", {}, "a graph cannot wait for a stream; its launch is ordered after what it reads");
}

std::unique_ptr<timed_mark> graph_recorder::mark() {
    refuse(device_, "event", {}, "a graph cannot contain timed marks");
}

void graph_recorder::wait(ticket, wait_mode) {
    refuse(device_, "wait", {}, "the host cannot wait inside a graph for a result of that graph");
}

}  // namespace sluice::detail
