// SPDX-License-Identifier: Apache-2.0
#include "network_picture.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "network_words.hpp"

namespace sluice::app {
namespace {

// A value at the edge of a graph.
struct edge_value {
    std::string name, words;
};

struct drawn_node;

struct drawn_graph {
    std::vector<edge_value> inputs, outputs;
    std::vector<drawn_node> nodes;
    std::map<std::string, std::string, std::less<>> constants = {};  // their types and shapes, by name
};

// A node, or a step of a prepared network.
struct drawn_node {
    std::string title, name;
    std::vector<std::string> inputs, outputs, details;  // details are for the tooltip
    flow_look look = flow_look::step;
    std::vector<drawn_graph> parts = {};
};

constexpr std::size_t most_constants = 3;  // in the words of a box

// The names that a graph takes from the graphs around it.
void collect_captures(const drawn_graph& from, std::set<std::string>& names) {
    std::set<std::string, std::less<>> given;
    for (const edge_value& each : from.inputs) given.insert(each.name);
    std::set<std::string> taken;
    for (const drawn_node& each : from.nodes) {
        taken.insert(each.inputs.begin(), each.inputs.end());
        for (const drawn_graph& part : each.parts) collect_captures(part, taken);
        given.insert(each.outputs.begin(), each.outputs.end());
    }
    for (const edge_value& each : from.outputs) taken.insert(each.name);
    for (const std::string& each : taken)
        if (!each.empty() && !given.contains(each) && !from.constants.contains(each)) names.insert(each);
}

class chart_of_graph {
public:
    explicit chart_of_graph(const drawn_graph& from) : from_(from) {}

    flow_chart make() {
        for (const edge_value& each : from_.inputs) {
            add_giver(each.name);
            chart_.boxes.push_back({.title = each.name.empty() ? "input" : each.name,
                                    .lines = lines_of(each),
                                    .tooltip = "input " + each.name + "\n" + each.words,
                                    .look = flow_look::source});
        }
        for (const drawn_node& each : from_.nodes) add(each);
        for (const edge_value& each : from_.outputs) {
            flow_box box{.title = each.name.empty() ? "output" : each.name,
                         .lines = lines_of(each),
                         .tooltip = "output " + each.name + "\n" + each.words,
                         .look = flow_look::sink};
            add_arrows(box, {each.name});
            chart_.boxes.push_back(std::move(box));
        }
        return std::move(chart_);
    }

private:
    static std::vector<std::string> lines_of(const edge_value& each) {
        return each.words.empty() ? std::vector<std::string>() : std::vector{each.words};
    }

    void add_giver(const std::string& value) {
        if (!value.empty()) givers_[value] = chart_.boxes.size();
    }

    void add(const drawn_node& each) {
        flow_box box{.title = each.title, .tooltip = each.title, .look = each.look};
        if (!each.name.empty()) box.lines.push_back(each.name);
        std::size_t constants = 0;
        for (const std::string& input : each.inputs) {
            const auto found = from_.constants.find(input);
            if (found == from_.constants.end() || ++constants > most_constants) continue;
            box.lines.push_back(found->second);
        }
        if (constants > most_constants)
            box.lines.push_back("and " + std::to_string(constants - most_constants) + " more constants");
        if (!each.name.empty()) box.tooltip += "\n" + each.name;
        for (const std::string& detail : each.details) box.tooltip += "\n" + detail;
        box.tooltip += "\ntakes " + joined(each.inputs) + "\ngives " + joined(each.outputs);

        std::vector<std::string> taken = each.inputs;
        std::set<std::string> captures;
        for (const drawn_graph& part : each.parts) collect_captures(part, captures);
        taken.insert(taken.end(), captures.begin(), captures.end());
        add_arrows(box, taken);
        add_parts(box, each.parts);
        for (const std::string& output : each.outputs) add_giver(output);
        chart_.boxes.push_back(std::move(box));
    }

    // One arrow for each box, with the names of all values that come from there.
    void add_arrows(flow_box& to, const std::vector<std::string>& values) const {
        std::map<std::size_t, std::vector<std::string>> from;
        for (const std::string& each : values) {
            const auto found = givers_.find(each);
            if (found == givers_.end()) continue;
            std::vector<std::string>& names = from[found->second];
            if (std::find(names.begin(), names.end(), each) == names.end()) names.push_back(each);
        }
        for (const auto& [box, names] : from) to.after.push_back({box, joined(names)});
    }

    // Several graphs, such as the branches of an If, are drawn side by side.
    static void add_parts(flow_box& to, const std::vector<drawn_graph>& parts) {
        flow_chart inside;
        for (const drawn_graph& part : parts) {
            flow_chart one = chart_of_graph(part).make();
            const std::size_t first = inside.boxes.size();
            for (flow_box& box : one.boxes) {
                for (flow_arrow& arrow : box.after) arrow.from += first;
                inside.boxes.push_back(std::move(box));
            }
        }
        if (!inside.boxes.empty()) to.inside = std::make_shared<const flow_chart>(std::move(inside));
    }

    const drawn_graph& from_;
    std::map<std::string, std::size_t, std::less<>> givers_;
    flow_chart chart_;
};

// Where inner graphs leave out the shape, they may leave out the type too.
std::vector<edge_value> edges_of(const std::vector<nn::value_info>& values, bool are_inner) {
    std::vector<edge_value> all;
    for (const nn::value_info& each : values)
        all.push_back({each.name, each.shape || !are_inner ? text_of(each) : std::string()});
    return all;
}
std::vector<edge_value> edges_of(const std::vector<std::string>& names) {
    std::vector<edge_value> all;
    for (const std::string& each : names) all.push_back({each, {}});
    return all;
}

std::map<std::string, std::string, std::less<>> constants_of(const nn::graph& from) {
    std::map<std::string, std::string, std::less<>> all;
    for (const auto& [name, value] : from.constants) all.emplace(name, text_of(value));
    return all;
}

drawn_graph drawn(const nn::graph& from, bool is_inner) {
    drawn_graph made{edges_of(from.inputs, is_inner), edges_of(from.outputs, is_inner), {}, constants_of(from)};
    for (const nn::node& each : from.nodes) {
        drawn_node node{operator_of(each), each.name, each.inputs, each.outputs, attributes_of(each)};
        for (const auto& [name, value] : each.attributes)
            if (const auto* const inner = std::get_if<std::shared_ptr<const nn::graph>>(&value))
                node.parts.push_back(drawn(**inner, true));
        made.nodes.push_back(std::move(node));
    }
    return made;
}

std::vector<drawn_node> drawn(const std::vector<nn::network_step>& steps) {
    std::vector<drawn_node> made;
    for (const nn::network_step& each : steps) {
        drawn_node node{joined(each.operators, " + "), each.name, each.inputs, each.outputs, {}};
        if (each.operators.size() == 1 && each.operators.front() == each.name) node.name.clear();
        if (each.may_join_next) node.look = flow_look::joined;
        if (each.is_on_host) node.look = flow_look::quiet;
        for (const nn::network_part& part : each.parts)
            node.parts.push_back({edges_of(part.inputs), edges_of(part.outputs), drawn(part.steps)});
        made.push_back(std::move(node));
    }
    return made;
}

bool has_look(const std::vector<nn::network_step>& steps, bool nn::network_step::* what) {
    return std::ranges::any_of(steps, [&](const nn::network_step& each) {
        return each.*what ||
               std::ranges::any_of(each.parts, [&](const auto& part) { return has_look(part.steps, what); });
    });
}

std::string counted(std::size_t count, const char* thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace

flow_chart picture_of(const nn::model& network) {
    flow_chart made = chart_of_graph(drawn(network.body, false)).make();
    made.heading = network.path.filename().string() + ": " + counted(network.body.nodes.size(), "node");
    made.legend = {{flow_look::source, "input"}, {flow_look::step, "node"}, {flow_look::sink, "output"}};
    return made;
}

flow_chart picture_of(const nn::model& network, const nn::pass_report& after) {
    const std::vector<nn::network_step>& steps = after.steps;
    const drawn_graph graph{edges_of(network.body.inputs, false), edges_of(network.body.outputs, false), drawn(steps),
                            constants_of(network.body)};
    flow_chart made = chart_of_graph(graph).make();
    made.heading = "after the pass \"" + after.name + "\": " + counted(steps.size(), "step");
    made.legend = {{flow_look::step, "step"}};
    if (has_look(steps, &nn::network_step::may_join_next))
        made.legend.push_back({flow_look::joined, "part of the next step's kernel, where shapes permit"});
    if (has_look(steps, &nn::network_step::is_on_host))
        made.legend.push_back({flow_look::quiet, "computed on the host"});
    return made;
}

}  // namespace sluice::app
