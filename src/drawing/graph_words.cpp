// SPDX-License-Identifier: Apache-2.0
#include "drawing/graph_words.hpp"

#include <variant>

#include "sluice/runtime/row_copy.hpp"
#include "trace/trace_text.hpp"

namespace sluice::detail {
namespace {

std::string extent_text(const launch_extent& extent) {
    std::string text = count_text(extent.x);
    if (extent.y != 1 || extent.z != 1) text.append(" × ").append(count_text(extent.y));
    if (extent.z != 1) text.append(" × ").append(count_text(extent.z));
    return text;
}

std::string launch_text(const launch_command& launch) {
    const launch_extent& grid = launch.grid;
    const bool is_one = grid.x == 1 && grid.y == 1 && grid.z == 1;
    return extent_text(grid) + (is_one ? " block of " : " blocks of ") + extent_text(launch.block);
}

std::string written_text(const graph_node& node, memory_list memory) {
    double bytes = 0;
    for (const std::uint32_t each : node.writes) {
        if (each < memory.size()) bytes += static_cast<double>(memory[each].bytes);
    }
    return node.writes.empty() ? std::string() : "writes " + bytes_text(bytes);
}

std::string condition_text(const graph_node& node, const conditional_command& part, memory_list memory) {
    if (part.mark != 0) return "again as long as a kernel says so";
    const std::string over =
        node.reads.empty() ? std::string("its condition") : memory_text(node.reads.front(), memory);
    const bool is_loop = part.what == conditional_command::kind::repeatedly;
    return (is_loop ? "as long as this is not 0: " : "if this is not 0: ") + over;
}

std::string copy_text(const copy_command& copy) {
    const std::string bytes = bytes_text(static_cast<double>(copied_bytes(copy)));
    return copy.rows.count == 1 ? bytes : bytes + " in " + std::to_string(copy.rows.count) + " rows";
}

std::string_view kind_text(const graph_node& node) noexcept {
    if (const auto kind = kind_of(node)) return to_string(*kind);
    return std::get<conditional_command>(node.what).what == conditional_command::kind::once ? "condition" : "loop";
}

// What it moves, or runs over.
std::string size_text(const graph_node& node, memory_list memory) {
    if (const auto* copy = std::get_if<copy_command>(&node.what)) return copy_text(*copy);
    if (const auto* fill = std::get_if<fill_command>(&node.what)) return bytes_text(static_cast<double>(fill->bytes));
    if (const auto* launch = std::get_if<launch_command>(&node.what)) return launch_text(*launch);
    if (const auto* part = std::get_if<conditional_command>(&node.what)) return condition_text(node, *part, memory);
    return written_text(node, memory);
}

std::string title_of(const graph_node& node) {
    std::string text(node.name);
    if (!node.operation.empty()) text.append(" (").append(node.operation).append(")");
    return text;
}

void count(const command_graph& graph, std::size_t& commands, std::size_t& edges) {
    for (const graph_node& node : graph.nodes) {
        ++commands;
        edges += node.after.size();
        if (const command_graph* const body = body_of(node)) count(*body, commands, edges);
    }
}

}  // namespace

std::optional<trace_kind> kind_of(const graph_node& node) noexcept {
    if (const auto* copy = std::get_if<copy_command>(&node.what)) {
        switch (copy->direction) {
            case copy_direction::host_to_device: return trace_kind::host_to_device;
            case copy_direction::device_to_host: return trace_kind::device_to_host;
            case copy_direction::device_to_device: break;
        }
        return trace_kind::device_to_device;
    }
    if (std::holds_alternative<fill_command>(node.what)) return trace_kind::fill;
    if (std::holds_alternative<launch_command>(node.what)) return trace_kind::kernel;
    if (std::holds_alternative<library_command>(node.what)) return trace_kind::library_call;
    if (std::holds_alternative<host_command>(node.what)) return trace_kind::host_call;
    return {};
}

const command_graph* body_of(const graph_node& node) noexcept {
    const auto* const part = std::get_if<conditional_command>(&node.what);
    return part != nullptr && part->body != nullptr && !part->body->nodes.empty() ? part->body.get() : nullptr;
}

std::string what_of(const graph_node& node, memory_list memory) {
    const std::string_view kind = kind_text(node);
    std::string size = size_text(node, memory);
    if (node.name == kind && !size.empty()) return size;
    std::string text(kind);
    if (!size.empty()) text.append(", ").append(size);
    return text;
}

std::string node_tooltip(const graph_node& node, memory_list memory) {
    std::string text(node.name);
    if (node.name != kind_text(node)) text.append(" (").append(kind_text(node)).append(")");
    if (!node.operation.empty()) text.append("\noperation ").append(node.operation);
    if (const std::string size = size_text(node, memory); !size.empty()) text.append("\n").append(size);
    if (const auto* launch = std::get_if<launch_command>(&node.what)) {
        if (launch->shared_bytes != 0)
            text.append("\n").append(bytes_text(static_cast<double>(launch->shared_bytes))).append(" of shared memory");
        if (const launch_extent& size = launch->cluster; size.x != 1 || size.y != 1 || size.z != 1) {
            text.append("\nin clusters of ").append(std::to_string(size.x)).append(" x ");
            text.append(std::to_string(size.y)).append(" x ").append(std::to_string(size.z)).append(" blocks");
        }
        if (launch->cooperative) text += "\nall blocks run at the same time";
        if (launch->early_start) text += "\nmay start before the kernels that it comes after have ended";
    }
    for (const std::uint32_t each : node.reads) text.append("\nreads ").append(memory_text(each, memory));
    for (const std::uint32_t each : node.writes) text.append("\nwrites ").append(memory_text(each, memory));
    if (node.location.line() != 0) {
        const std::string_view path = node.location.file_name();
        text.append("\n")
            .append(path.substr(path.rfind('/') + 1))
            .append(":")
            .append(std::to_string(node.location.line()));
    }
    return text;
}

std::string memory_text(std::uint32_t index, memory_list memory) {
    if (index == graph_edge::no_memory) return "no shared data";
    if (index >= memory.size()) return "memory " + std::to_string(index);
    const graph_memory& of = memory[index];
    return std::string(of.name).append(", ").append(bytes_text(static_cast<double>(of.bytes)));
}

std::string_view reason_text(edge_reason reason) noexcept {
    switch (reason) {
        case edge_reason::read_after_write: return "reads what was written";
        case edge_reason::write_after_read: return "overwrites what was read";
        case edge_reason::write_after_write: return "overwrites what was written";
        case edge_reason::stream_order: return "keeps the order of the stream";
    }
    return "comes after";
}

std::string_view reason_word(edge_reason reason) noexcept {
    switch (reason) {
        case edge_reason::read_after_write: return "read-after-write";
        case edge_reason::write_after_read: return "write-after-read";
        case edge_reason::write_after_write: return "write-after-write";
        case edge_reason::stream_order: return "stream-order";
    }
    return "after";
}

std::string edge_tooltip(const command_graph& graph, const graph_node& later, const graph_edge& edge,
                         memory_list memory) {
    std::string text = title_of(later) + "\ncomes after " + title_of(graph.nodes[edge.from]) + "\n";
    text.append(reason_text(edge.reason)).append(": ").append(memory_text(edge.memory, memory));
    if (edge.is_programmatic) text += "\nand may start before that has ended";
    return text;
}

std::string graph_summary(const command_graph& graph) {
    std::size_t commands = 0, edges = 0;
    count(graph, commands, edges);
    return count_text(commands, "command") + ", " + count_text(edges, "edge");
}

}  // namespace sluice::detail
