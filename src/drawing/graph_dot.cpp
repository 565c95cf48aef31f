// SPDX-License-Identifier: Apache-2.0
// Writes a graph as DOT: a node for each command, an edge for each edge. A condition or loop is a cluster with a node
// that describes it; edges to and from it end at the cluster's border.
#include <string>
#include <utility>

#include "drawing/graph_words.hpp"
#include "sluice/drawing/graph_drawing.hpp"
#include "trace/trace_text.hpp"

namespace sluice {
namespace {

using detail::memory_list;

// As in the picture and in timelines (timeline_style).
std::string_view colour_of(const graph_node& node) noexcept {
    const auto kind = detail::kind_of(node);
    if (!kind) return "#64748b";
    switch (*kind) {
        case trace_kind::host_to_device: return "#0b7d72";
        case trace_kind::device_to_host: return "#b4540a";
        case trace_kind::device_to_device: return "#6b6f12";
        case trace_kind::fill: return "#64748b";
        case trace_kind::kernel: return "#2f62d9";
        case trace_kind::library_call: return "#7a45cc";
        case trace_kind::host_call: return "#b52b6b";
        case trace_kind::graph:
        case trace_kind::stage: break;
    }
    return "#3f6212";
}

// A string of DOT, quotes included. Graphviz takes backslashes for escapes, and '&' for the begin of an entity.
void append_dot(std::string& to, std::string_view text) {
    to += '"';
    for (std::size_t at = 0; at < text.size();) {
        const char32_t code_point = detail::next_code_point(text, at);
        switch (code_point) {
            case '"': to += "\\\""; break;
            case '\\': to += "\\\\"; break;
            case '&': to += "&amp;"; break;
            case '\n': to += "\\n"; break;
            case '\t': to += ' '; break;
            default:
                detail::append_utf8(
                    to, code_point < 0x20 || code_point == 0x7F ? detail::replacement_character : code_point);
        }
    }
    to += '"';
}

class dot_writer {
public:
    explicit dot_writer(memory_list memory) : memory_(memory) {}

    std::string write(const command_graph& graph) {
        text_ =
            "digraph commands {\n"
            "  compound=true;\n"
            "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11, fontcolor=white, "
            "penwidth=0];\n"
            "  edge [fontname=\"sans-serif\", fontsize=9, color=\"#475569\", fontcolor=\"#475569\"];\n";
        part(graph, "n", "  ");
        return std::move(text_ += "}\n");
    }

private:
    void attribute(std::string_view separator, std::string_view name, std::string_view value) {
        append_dot(text_.append(separator).append(name).append("="), value);
    }

    void part(const command_graph& graph, const std::string& prefix, const std::string& indent) {
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) node(graph.nodes[i], prefix + std::to_string(i), indent);
        for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
            for (const graph_edge& each : graph.nodes[i].after) edge(graph, i, each, prefix, indent);
        }
    }

    void node(const graph_node& of, const std::string& id, const std::string& indent) {
        const command_graph* const body = detail::body_of(of);
        const std::string inner = body != nullptr ? indent + "  " : indent;
        if (body != nullptr) {
            text_.append(indent).append("subgraph cluster_").append(id).append(" {\n");
            text_.append(inner).append("style=rounded; color=\"#94a3b8\";\n");
        }
        std::string label = of.operation;
        if (!label.empty()) label += "\n";
        label.append(of.name).append("\n").append(detail::what_of(of, memory_));
        text_.append(inner).append(id);
        attribute(" [", "label", label);
        attribute(", ", "fillcolor", colour_of(of));
        attribute(", ", "tooltip", detail::node_tooltip(of, memory_));
        text_ += "];\n";
        if (body == nullptr) return;
        part(*body, id + "_", inner);
        text_.append(indent).append("}\n");
    }

    void edge(const command_graph& graph, std::size_t to, const graph_edge& of, const std::string& prefix,
              const std::string& indent) {
        const graph_node& earlier = graph.nodes[of.from];
        const std::string from_id = prefix + std::to_string(of.from), to_id = prefix + std::to_string(to);
        text_.append(indent).append(last_of(earlier, from_id)).append(" -> ").append(to_id);
        const std::string label =
            detail::memory_text(of.memory, memory_) + "\n" + std::string(detail::reason_text(of.reason));
        attribute(" [", "label", label);
        attribute(", ", "tooltip", detail::edge_tooltip(graph, graph.nodes[to], of, memory_));
        if (of.is_programmatic) text_ += ", style=dashed";
        if (detail::body_of(earlier) != nullptr) text_.append(", ltail=cluster_").append(from_id);
        if (detail::body_of(graph.nodes[to]) != nullptr) text_.append(", lhead=cluster_").append(to_id);
        text_ += "];\n";
    }

    // From where an edge leaves a cluster: far down in it, so that what comes after is below.
    static std::string last_of(const graph_node& node, const std::string& id) {
        const command_graph* const body = detail::body_of(node);
        if (body == nullptr) return id;
        return last_of(body->nodes.back(), id + "_" + std::to_string(body->nodes.size() - 1));
    }

    const memory_list memory_;
    std::string text_;
};

}  // namespace

std::string to_dot(const command_graph& graph) { return dot_writer(graph.memory).write(graph); }

}  // namespace sluice
