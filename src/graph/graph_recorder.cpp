#include "graph/graph_recorder.hpp"

#include <algorithm>
#include <utility>

#include "sluice/runtime/error.hpp"

namespace sluice::detail {
namespace {

// Where nothing is, on any device or host: for places whose address is not known yet.
constexpr std::uintptr_t first_address = std::uintptr_t{1} << 61;
constexpr std::uintptr_t address_step = 512;

constexpr std::string_view no_launches_inside =
    "a kernel inside a condition or a loop cannot launch graphs: it would run again before they are over";
constexpr std::string_view of_one_device = "a graph is of one device: copy before it, or after";
constexpr std::string_view no_host_code_inside = "host code cannot run inside a condition or a loop";

[[noreturn]] void refuse(const device& on, std::string_view name, const source_location& where, std::string_view why) {
    throw error(errc::graph_refused, why, {name, on.name(), where});
}

}  // namespace

graph_recorder::graph_recorder(device& of, const recording_layout* layout, std::uint64_t graph_id)
    : device_(of), layout_(layout), queue_(of, *this), levels_(1), next_address_(first_address), graph_id_(graph_id) {}

graph_recorder::~graph_recorder() = default;

native_stream graph_recorder::native() const noexcept { return {device_.kind(), nullptr, &queue_.handle()}; }

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
        made = storage_ref(
            new storage(device_.device_pool(), reinterpret_cast<void*>(next_address_), bytes, storage::planned{}));
        next_address_ += (bytes / address_step + 2) * address_step;
    } else {
        if (number >= layout_->places.size() || layout_->places[number].bytes != bytes) {
            refuse(device_, info.name, info.where,
                   "the operation allocated something else when it was recorded again; what it does may depend on "
                   "nothing but its inputs' values");
        }
        const recording_layout::place& where = layout_->places[number];
        made = where.memory ? where.memory
                            : storage_ref(new storage(device_.device_pool(), where.address, bytes, storage::planned{}));
    }
    const std::uint32_t index = know(*made, {info.name, bytes, true});
    const bool is_given = layout_ != nullptr && layout_->places[number].memory;
    places_.push_back({made, bytes, index, info.name, info.where, is_given});
    return made;
}

storage_ref graph_recorder::allocate_host(std::size_t bytes, const command_info& info) {
    const std::size_t number = host_blocks_.size();
    const bool is_given = layout_ != nullptr && number < layout_->host_blocks.size() && layout_->host_blocks[number];
    return adopt_host(is_given ? layout_->host_blocks[number] : device_.host_pool().allocate(bytes, nullptr, info),
                      bytes, info);
}

storage_ref graph_recorder::adopt_host(const storage_ref& block, std::size_t bytes, const command_info& info) {
    storage_ref made = block;
    const std::uint32_t index = know(*made, {info.name, bytes, true});
    host_blocks_.push_back({made, bytes, index, info.name, info.where});
    return made;
}

// Each call has scratch memory of its own: one for all would put them into a row.
storage_ref graph_recorder::workspace(std::size_t bytes) {
    storage_ref made = allocate(bytes, {"workspace"});
    made->holds_no_data();
    return made;
}

std::uint32_t graph_recorder::index_of(storage& memory, access_mode mode) {
    const auto known = indices_.find(&memory);
    const std::uint32_t index =
        known != indices_.end() ? known->second : know(memory, {"outside", memory.capacity_bytes(), false});
    if (known == indices_.end() && !memory.is_planned())
        outside_.push_back({storage_ref::retain(&memory), mode, index});
    return index;
}

// --- nodes and edges ---------------------------------------------------------------------------------------

void graph_recorder::add_edge(graph_node& node, const graph_edge& edge) {
    const std::vector<graph_node>& nodes = levels_.back().graph.nodes;
    const auto comes_after = [&](std::uint32_t later, std::uint32_t earlier) {
        return std::ranges::any_of(nodes[later].after, [&](const graph_edge& each) { return each.from == earlier; });
    };
    for (const graph_edge& known : node.after) {
        if (known.from == edge.from || comes_after(known.from, edge.from)) return;
    }
    std::erase_if(node.after, [&](const graph_edge& known) { return comes_after(edge.from, known.from); });
    node.after.push_back(edge);
}

void graph_recorder::use(graph_node& node, std::uint32_t memory, access_mode mode) {
    level& here = levels_.back();
    if (here.used.size() <= memory) here.used.resize(memory_.size());
    uses& past = here.used[memory];
    if (const auto left = launched_.find(memory); left != launched_.end()) {
        refuse(device_, node.name, node.where,
               "uses the memory of a graph that the kernel '" + std::string(left->second) +
                   "' may have launched before it; that is over when this graph is");
    }
    // The node is the last of the list already.
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

// A kernel that waits by itself may start while the kernels before it run.
void graph_recorder::start_early(graph_node& node) {
    const auto* const launch = std::get_if<launch_command>(&node.what);
    if (launch == nullptr || !launch->early_start) return;
    for (graph_edge& each : node.after)
        each.is_programmatic = std::holds_alternative<launch_command>(levels_.back().graph.nodes[each.from].what);
}

graph_node& graph_recorder::add(const command_info& info, graph_node::command what) {
    std::vector<graph_node>& nodes = levels_.back().graph.nodes;
    nodes.push_back({std::move(what), info.name, std::string(info.operation), info.where, {}, {}, {}, 0, {}, {}});
    graph_node& node = nodes.back();
    for (const memory_access& used : info.accesses) {
        if (used.where != nullptr) use(node, index_of(*used.where, used.mode), used.mode);
    }
    return node;
}

void graph_recorder::copy(const command_info& info, const copy_command& command) {
    if (command.source_device != nullptr) refuse(device_, info.name, info.where, of_one_device);
    add(info, command);
}

void graph_recorder::fill(const command_info& info, const fill_command& command) { add(info, command); }

void graph_recorder::launch(const command_info& info, const launch_command& command) {
    if (!command.launches.empty() && levels_.size() > 1) refuse(device_, info.name, info.where, no_launches_inside);
    graph_node& node = add(info, command);
    std::get<launch_command>(node.what).launches = {};  // the node keeps what it needs of them
    node.closure_offset = levels_.back().graph.add_closure(command.closure, command.closure_bytes);
    start_early(node);
    std::vector<std::uint32_t> launched;
    for (const launched_graph& each : command.launches) {
        node.launched_owners.push_back(each.owner);
        for (storage* const memory : each.memory) {
            if (memory != nullptr) launched.push_back(index_of(*memory, access_mode::write));
        }
    }
    leave_to_launched_graphs(node, std::move(launched));
}

// From here on these graphs may run, beside or behind this one: nothing else of it may touch their memory.
void graph_recorder::leave_to_launched_graphs(graph_node& by, std::vector<std::uint32_t> memory) {
    for (const std::uint32_t each : memory) launched_.emplace(each, by.name);
    by.launched = std::move(memory);
}

std::exception_ptr graph_recorder::library_call(const command_info& info, const library_command& command) {
    graph_node& node = add(info, command);
    node.closure_offset = levels_.back().graph.add_closure(command.closure, command.closure_bytes);
    return {};
}

void graph_recorder::host_call(const command_info& info, host_command command) {
    if (levels_.size() > 1) refuse(device_, info.name, info.where, no_host_code_inside);
    add(info, std::move(command));
}

// A graph inside a graph: its nodes, with edges of their own to what is here.
namespace {

// Whether a node of the graph names the memory, as opposed to places in it.
bool is_named(const graph_command& graph, const storage* memory) {
    const auto found = std::ranges::find(graph.memory, memory);
    if (found == graph.memory.end()) return false;
    const auto index = static_cast<std::uint32_t>(found - graph.memory.begin());
    return std::ranges::any_of(graph.program->commands().nodes, [&](const graph_node& node) {
        return std::ranges::find(node.reads, index) != node.reads.end() ||
               std::ranges::find(node.writes, index) != node.writes.end();
    });
}

}  // namespace

void graph_recorder::graph(const command_info& info, const graph_command& command) {
    std::vector<std::uint32_t> as_a_whole;  // what nodes use only as places in it: the graph's block of temporaries
    for (const memory_access& used : info.accesses) {
        if (used.where == nullptr) continue;
        const std::uint32_t index = index_of(*used.where, used.mode);
        if (!is_named(command, used.where)) as_a_whole.push_back(index);
    }
    const auto first = static_cast<std::uint32_t>(levels_.back().graph.nodes.size());
    append(command.program->commands(), command.memory);
    for (const std::uint32_t each : as_a_whole) use_as_a_whole(each, first);
    owners_.push_back(command.owner);
}

namespace {

// The same part with other numbers for the memory.
std::shared_ptr<const command_graph> renumber(const command_graph& part, const std::vector<std::uint32_t>& numbers) {
    auto made = std::make_shared<command_graph>(part);
    for (graph_node& node : made->nodes) {
        for (graph_edge& edge : node.after) edge.memory = numbers[edge.memory];
        for (std::uint32_t& each : node.reads) each = numbers[each];
        for (std::uint32_t& each : node.writes) each = numbers[each];
        if (auto* const inner = std::get_if<conditional_command>(&node.what))
            inner->body = renumber(*inner->body, numbers);
    }
    return made;
}

}  // namespace

void graph_recorder::append(const command_graph& from, std::span<storage* const> memory) {
    std::vector<std::uint32_t> numbers;
    // Its places stay, or another one might soon have the address by which this is known. (It records itself anew when
    // it is launched once more with other arguments.)
    std::vector<storage_ref> kept;
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const auto known = indices_.find(memory[i]);
        numbers.push_back(known != indices_.end() ? known->second : know(*memory[i], from.memory[i]));
        if (known == indices_.end() && memory[i]->is_planned()) kept.push_back(storage_ref::retain(memory[i]));
    }
    if (!kept.empty()) owners_.push_back(std::make_shared<const std::vector<storage_ref>>(std::move(kept)));
    const auto first = static_cast<std::uint32_t>(levels_.back().graph.nodes.size());
    for (const graph_node& node : from.nodes) {
        if (levels_.size() > 1 && !node.launched.empty()) refuse(device_, node.name, node.where, no_launches_inside);
        if (levels_.size() > 1 && std::holds_alternative<host_command>(node.what))
            refuse(device_, node.name, node.where, no_host_code_inside);
        graph_node& made = add({node.name, {}, node.where}, node.what);
        made.operation = node.operation;
        for (const std::uint32_t each : node.reads) use(made, numbers[each], access_mode::read);
        for (const std::uint32_t each : node.writes) use(made, numbers[each], access_mode::write);
        // Also those that do not follow from what the nodes name: over the block of a graph further inside.
        for (const graph_edge& edge : node.after)
            add_edge(made, {first + edge.from, numbers[edge.memory], edge.reason, edge.is_programmatic});
        start_early(made);
        const auto closure = from.closure(node);
        made.closure_offset = levels_.back().graph.add_closure(closure.data(), closure.size());
        if (auto* const part = std::get_if<conditional_command>(&made.what))
            part->body = renumber(*part->body, numbers);
        std::vector<std::uint32_t> launched;
        for (const std::uint32_t each : node.launched) launched.push_back(numbers[each]);
        leave_to_launched_graphs(made, std::move(launched));
        made.launched_owners = node.launched_owners;
    }
}

// The nodes from the first one on, all together, write this memory: those that begin come after whoever used it before,
// whoever uses it next comes after those that end. (Places in it that share bytes are different memory for the rest of
// the recorder; a second launch of the same graph has only this to be ordered by.)
void graph_recorder::use_as_a_whole(std::uint32_t memory, std::uint32_t first_node) {
    level& here = levels_.back();
    if (here.used.size() <= memory) here.used.resize(memory_.size());
    std::vector<graph_node>& nodes = here.graph.nodes;
    if (first_node == nodes.size()) return;
    uses& past = here.used[memory];
    std::vector<bool> has_follower(nodes.size());
    for (std::size_t i = first_node; i < nodes.size(); ++i) {
        bool begins = true;
        for (const graph_edge& edge : nodes[i].after) {
            has_follower[edge.from] = true;
            begins = begins && edge.from < first_node;
        }
        if (!begins) continue;
        for (const std::uint32_t user : past.readers)
            add_edge(nodes[i], {user, memory, edge_reason::write_after_write});
        if (past.readers.empty() && past.last_write != nothing)
            add_edge(nodes[i], {past.last_write, memory, edge_reason::write_after_write});
    }
    past.readers.clear();
    for (auto i = first_node; i < nodes.size(); ++i) {
        if (!has_follower[i]) past.readers.push_back(i);
    }
    past.is_written = true;
}

void graph_recorder::begin_part() { levels_.emplace_back(); }

// Nothing that a closure holds by chance (the finaliser of splitmix64).
std::uint64_t graph_recorder::next_loop_mark() noexcept {
    std::uint64_t mark = (graph_id_ << 20 | ++loops_) * 0x9e3779b97f4a7c15;
    mark = (mark ^ (mark >> 30)) * 0xbf58476d1ce4e5b9;
    mark = (mark ^ (mark >> 27)) * 0x94d049bb133111eb;
    return mark ^ (mark >> 31);
}

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
}

command_graph graph_recorder::finish() {
    if (layout_ != nullptr && places_.size() != layout_->places.size()) {
        refuse(device_, "graph", {}, "the operation allocated less when it was recorded again");
    }
    command_graph made = std::move(levels_.front().graph);
    const std::vector<uses>& used = levels_.front().used;
    for (outside_memory& each : outside_) {
        if (each.index < used.size() && used[each.index].is_written) each.mode = access_mode::write;
    }
    made.memory = memory_;
    return made;
}

// --- what cannot be recorded -----------------------------------------------------------------------------------

ticket graph_recorder::wait_for(stream_interpreter&, ticket) {
    refuse(device_, "wait", {}, "a graph cannot wait for a stream; what it reads is ordered when it is launched");
}

std::unique_ptr<timed_mark> graph_recorder::mark() { refuse(device_, "event", {}, "a graph cannot be marked inside"); }

void graph_recorder::await(ticket, wait_mode) {
    refuse(device_, "wait", {}, "the host cannot wait inside a graph for what the graph will make");
}

}  // namespace sluice::detail
