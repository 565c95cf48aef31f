// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_difference.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <variant>

#include "sluice/base/printable.hpp"
#include "sluice/runtime/graph_program.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

bool same_edges(const graph_node& a, const graph_node& b) {
    return std::ranges::equal(a.after, b.after, [](const graph_edge& x, const graph_edge& y) {
        return x.from == y.from && x.is_programmatic == y.is_programmatic;
    });
}

bool same_extent(const launch_extent& a, const launch_extent& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Compares nodes of one kind. Closures may differ in padding bytes: then a node is set without need, which is harmless.
bool same_command(const command_graph& before, const graph_node& a, const command_graph& after, const graph_node& b) {
    if (const auto* copy = std::get_if<copy_command>(&a.what)) {
        const auto& other = std::get<copy_command>(b.what);
        return copy->destination == other.destination && copy->source == other.source && has_same_rows(*copy, other) &&
               copy->direction == other.direction && copy->host_owner == other.host_owner;
    }
    if (const auto* fill = std::get_if<fill_command>(&a.what)) {
        const auto& other = std::get<fill_command>(b.what);
        return fill->destination == other.destination && fill->value == other.value && fill->bytes == other.bytes;
    }
    if (const auto* launch = std::get_if<launch_command>(&a.what)) {
        const auto& other = std::get<launch_command>(b.what);
        return runs_same_code(*launch, other) && same_extent(launch->grid, other.grid) &&
               same_extent(launch->block, other.block) && launch->shared_bytes == other.shared_bytes &&
               has_same_group(*launch, other) && same_bytes(before.closure(a), after.closure(b));
    }
    if (const auto* library = std::get_if<library_command>(&a.what)) {
        return library->call == std::get<library_command>(b.what).call &&
               same_bytes(before.closure(a), after.closure(b));
    }
    if (const auto* part = std::get_if<conditional_command>(&a.what)) {
        const auto& other = std::get<conditional_command>(b.what);
        return part->what == other.what && part->condition == other.condition && part->mark == other.mark &&
               compare(*part->body, *other.body).is_same();
    }
    return false;  // a host call: its functions cannot be compared
}

bool fit(const graph_node& a, const graph_node& b) { return a.what.index() == b.what.index() && same_edges(a, b); }

std::string_view kind_of(const graph_node& node) {
    constexpr std::array<std::string_view, std::variant_size_v<graph_node::command>> kinds{
        "a copy", "a fill", "a kernel", "a library call", "a host call", "a condition or loop"};
    return kinds[node.what.index()];
}

std::string other_topology(const command_graph& before, const command_graph& after) {
    const auto differs = std::ranges::mismatch(before.nodes, after.nodes, fit);
    const auto was = differs.in1 - before.nodes.begin();
    std::string why;
    if (before.nodes.size() != after.nodes.size()) {
        why = "the graph has " + std::to_string(after.nodes.size()) + " nodes and had " +
              std::to_string(before.nodes.size()) + "; ";
    }
    if (differs.in2 == after.nodes.end())
        return why + "node " + std::to_string(was) + ", " + label(*differs.in1) + ", is gone";
    why += "node " + std::to_string(was) + ", " + label(*differs.in2) + ", ";
    if (differs.in1 == before.nodes.end()) return why + "is new";
    if (differs.in1->what.index() != differs.in2->what.index()) {
        why += "is " + std::string(kind_of(*differs.in2)) + " and was " + std::string(kind_of(*differs.in1));
    } else {
        why += "comes after other nodes than before";
    }
    return why + " (it was " + label(*differs.in1) + ")";
}

std::string text_of_group(const launch_command& launch) {
    const launch_extent& size = launch.cluster;
    std::string text = launch.cooperative ? "a cooperative launch" : "an ordinary launch";
    if (size.x != 1 || size.y != 1 || size.z != 1) {
        text += " in clusters of " + std::to_string(size.x) + " x " + std::to_string(size.y) + " x " +
                std::to_string(size.z);
    }
    return text;
}

// Why the group of a node has changed; empty if it has not. The topology is the same.
std::string other_group(std::size_t number, const graph_node& a, const graph_node& b) {
    if (const auto* part = std::get_if<conditional_command>(&a.what))
        return compare(*part->body, *std::get<conditional_command>(b.what).body).other_groups;
    const auto* const launch = std::get_if<launch_command>(&a.what);
    if (launch == nullptr) return {};
    const auto& other = std::get<launch_command>(b.what);
    if (has_same_group(*launch, other)) return {};
    return "node " + std::to_string(number) + ", " + label(b) + ", is " + text_of_group(other) + " and was " +
           text_of_group(*launch);
}

}  // namespace

std::string label(const graph_node& node) {
    if (node.operation.empty()) return in_quotes(node.name);
    return in_quotes(node.operation) + " (" + printable(node.name) + ")";
}

bool runs_same_code(const launch_command& a, const launch_command& b) noexcept {
    if (a.device_function != b.device_function || a.host_function != b.host_function) return false;
    if (a.function == b.function) return true;
    // The same function may have been looked up twice. Both keep the module loaded, so equal handles are one function.
    return a.function != nullptr && b.function != nullptr && a.function->handle == b.function->handle &&
           std::ranges::equal(a.function->offsets, b.function->offsets);
}

bool has_same_group(const launch_command& a, const launch_command& b) noexcept {
    return same_extent(a.cluster, b.cluster) && a.cooperative == b.cooperative;
}

graph_difference compare(const command_graph& before, const command_graph& after) {
    graph_difference found;
    if (!std::ranges::equal(before.nodes, after.nodes, fit)) {
        found.why = other_topology(before, after);
        return found;
    }
    for (std::size_t i = 0; i < before.nodes.size(); ++i) {
        const graph_node& a = before.nodes[i];
        const graph_node& b = after.nodes[i];
        if (same_command(before, a, after, b)) continue;
        found.changed.push_back(i);
        if (found.other_groups.empty()) found.other_groups = other_group(i, a, b);
    }
    found.has_same_topology = true;
    return found;
}

void set_address_in(command_graph& graph, std::size_t node, std::size_t at, void* address) noexcept {
    graph_node& changed = graph.nodes[node];
    if (auto* copy = std::get_if<copy_command>(&changed.what)) {
        if (at == graph_program::copy_destination) {
            copy->destination = address;
        } else {
            copy->source = address;
        }
    } else if (auto* fill = std::get_if<fill_command>(&changed.what)) {
        fill->destination = address;
    } else {
        std::memcpy(graph.closure(changed).data() + at, &address, sizeof(address));
    }
}

}  // namespace sluice::detail
