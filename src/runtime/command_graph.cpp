// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/command_graph.hpp"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

std::size_t closure_bytes_of(const graph_node& node) noexcept {
    if (const auto* launch = std::get_if<launch_command>(&node.what)) return launch->closure_bytes;
    if (const auto* call = std::get_if<library_command>(&node.what)) return call->closure_bytes;
    return 0;
}

template <typename Predicate>
bool has_any(const command_graph& graph, Predicate is_one) noexcept {
    return std::ranges::any_of(graph.nodes, [&](const graph_node& node) {
        if (is_one(node.what)) return true;
        const auto* const part = std::get_if<conditional_command>(&node.what);
        return part != nullptr && part->body != nullptr && has_any(*part->body, is_one);
    });
}
template <typename Command>
bool has_any(const command_graph& graph) noexcept {
    return has_any(graph, [](const graph_node::command& what) { return std::holds_alternative<Command>(what); });
}

}  // namespace

std::size_t command_graph::add_closure(const void* closure, std::size_t bytes) {
    constexpr std::size_t unit = sizeof(std::max_align_t);
    const std::size_t begin = closure_bytes_;
    const std::size_t end = begin + (bytes + unit - 1) / unit * unit;
    if (closures_.size() * unit < end) closures_.resize(std::max(2 * closures_.size(), end / unit));
    if (bytes != 0) std::memcpy(reinterpret_cast<std::byte*>(closures_.data()) + begin, closure, bytes);
    closure_bytes_ = end;
    return begin;
}

std::span<std::byte> command_graph::closure(const graph_node& of) noexcept {
    return {reinterpret_cast<std::byte*>(closures_.data()) + of.closure_offset, closure_bytes_of(of)};
}

std::span<const std::byte> command_graph::closure(const graph_node& of) const noexcept {
    return {reinterpret_cast<const std::byte*>(closures_.data()) + of.closure_offset, closure_bytes_of(of)};
}

launch_command command_graph::launch(const graph_node& of) const noexcept {
    launch_command made = std::get<launch_command>(of.what);
    made.closure = closure(of).data();
    return made;
}

library_command command_graph::library_call(const graph_node& of) const noexcept {
    library_command made = std::get<library_command>(of.what);
    made.closure = closure(of).data();
    return made;
}

bool command_graph::is_written(std::uint32_t index) const noexcept {
    return std::ranges::any_of(
        nodes, [&](const graph_node& node) { return std::ranges::find(node.writes, index) != node.writes.end(); });
}

bool command_graph::has_host_calls() const noexcept { return has_any<host_command>(*this); }
bool command_graph::has_library_calls() const noexcept { return has_any<library_command>(*this); }
bool command_graph::has_fallible_kernels() const noexcept {
    return has_any(*this, [](const graph_node::command& what) {
        const auto* const launch = std::get_if<launch_command>(&what);
        return launch != nullptr && launch->may_fail;
    });
}

}  // namespace sluice
