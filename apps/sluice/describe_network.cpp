// SPDX-License-Identifier: Apache-2.0
#include "describe_network.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "describe_passes.hpp"
#include "json_line.hpp"
#include "network_words.hpp"
#include "row_network.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/row_independence.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

nlohmann::json to_json(const std::vector<nn::value_info>& values) {
    auto array = nlohmann::json::array();
    for (const nn::value_info& each : values) {
        nlohmann::json one = {{"name", each.name}, {"type", each.is_text ? "text" : to_string(each.type)}};
        if (each.shape) {
            one["shape"] = nlohmann::json::array();
            for (const nn::dimension& length : *each.shape) {
                if (length.length) {
                    one["shape"].push_back(*length.length);
                } else {
                    one["shape"].push_back(length.name);
                }
            }
        }
        array.push_back(std::move(one));
    }
    return array;
}

nlohmann::json to_json(const std::vector<nn::network_step>& steps) {
    auto array = nlohmann::json::array();
    for (const nn::network_step& each : steps) {
        nlohmann::json one{{"name", each.name},          {"operators", each.operators},
                           {"inputs", each.inputs},      {"outputs", each.outputs},
                           {"on_host", each.is_on_host}, {"may_join_next", each.may_join_next}};
        if (!each.parts.empty()) {
            one["parts"] = nlohmann::json::array();
            for (const nn::network_part& part : each.parts) one["parts"].push_back(to_json(part.steps));
        }
        array.push_back(std::move(one));
    }
    return array;
}

nlohmann::json to_json(const nn::row_independence& rows) {
    nlohmann::json made{{"independent", rows.is_proven}};
    if (rows.is_proven) {
        made["input_axes"] = rows.input_axes;
        made["output_axes"] = rows.output_axes;
    } else {
        made["operator"] = rows.op;
        made["why"] = rows.text();
    }
    return made;
}

void add_steps(text_table& table, const std::vector<nn::network_step>& steps, const std::string& indent) {
    for (const nn::network_step& each : steps) {
        table.add({indent + each.name, joined(each.operators, " + "), joined(each.inputs), joined(each.outputs),
                   each.is_on_host      ? "on the host"
                   : each.may_join_next ? "may join the next step's kernel"
                                        : ""});
        for (const nn::network_part& part : each.parts) add_steps(table, part.steps, indent + "  ");
    }
}

void write_steps(const std::vector<nn::network_step>& steps, std::ostream& out) {
    text_table table({"step", "operators", "takes", "gives", "how"});
    add_steps(table, steps, {});
    out << "after the passes: " << steps.size() << (steps.size() == 1 ? " step\n" : " steps\n") << table;
}

// Why `sluice run` refuses the network; none when it runs it.
std::optional<std::string> refusal_of(const nn::model& network) {
    try {
        nn::check_operators(network);
        return std::nullopt;
    } catch (const error& failure) {
        return failure.what();
    }
}

// The names of the features of each ensemble of trees that has them.
std::vector<std::vector<std::string>> features_of(const nn::model& network) {
    std::vector<std::vector<std::string>> found;
    for (const nn::node& each : network.body.nodes)
        if (const auto* const names = each.find<std::vector<std::string>>("feature_names")) found.push_back(*names);
    return found;
}

std::vector<std::string> printable_words(const std::vector<std::string>& names) {
    std::vector<std::string> made;
    for (const std::string& each : names) made.push_back(printable(each));
    return made;
}

// Names in lines of at most 120 columns, separated by commas.
void write_wrapped(const std::vector<std::string>& names, std::ostream& out) {
    std::size_t column = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string word = names[i] + (i + 1 < names.size() ? "," : "");
        if (column != 0 && column + 1 + word.size() > 120) {
            out << '\n';
            column = 0;
        }
        if (column != 0) out << ' ';
        out << word;
        column += word.size() + (column != 0 ? 1 : 0);
    }
    out << '\n';
}

}  // namespace

void describe_network(const nn::model& network, const std::vector<nn::pass_report>& passes, bool as_json,
                      std::ostream& out) {
    const std::optional<std::string> refusal = refusal_of(network);
    std::optional<nn::row_independence> rows;
    if (!refusal) rows = nn::find_row_independence(network);
    std::size_t parameters = 0;
    for (const auto& [name, value] : network.body.constants) parameters += value.elements();

    if (as_json) {
        auto nodes = nlohmann::json::array();
        for (const nn::node& each : network.body.nodes) {
            nodes.push_back({{"name", each.name},
                             {"operator", operator_of(each)},
                             {"inputs", each.inputs},
                             {"outputs", each.outputs}});
        }
        nlohmann::json all = {{"model", network.path.string()},
                              {"producer", network.producer},
                              {"opsets", nlohmann::json::object()},
                              {"inputs", to_json(network.body.inputs)},
                              {"outputs", to_json(network.body.outputs)},
                              {"nodes", nodes},
                              {"parameters", parameters},
                              {"runs", !refusal.has_value()},
                              {"row_by_row", by_rows(network).has_value()}};
        for (const std::vector<std::string>& each : features_of(network)) all["features"] = each;
        for (const auto& [domain, version] : network.opsets)
            all["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
        if (refusal) all["refusal"] = *refusal;
        if (rows) all["rows"] = to_json(*rows);
        if (!passes.empty()) {
            all["passes"] = to_json(passes);
            all["steps"] = to_json(steps_after(passes));
        }
        out << json_line(all) << '\n';
        return;
    }
    out << printable(network.path.native()) << ": " << network.body.nodes.size() << " nodes, " << parameters
        << " parameters";
    for (const auto& [domain, version] : network.opsets)
        out << ", " << (domain.empty() ? "ai.onnx" : printable(domain)) << " " << version;
    if (!network.producer.empty()) out << ", made by " << printable(network.producer);
    out << '\n';
    for (const nn::value_info& each : network.body.inputs)
        out << "input " << printable(each.name) << ": " << printable(text_of(each)) << '\n';
    for (const nn::value_info& each : network.body.outputs)
        out << "output " << printable(each.name) << ": " << printable(text_of(each)) << '\n';
    for (const std::vector<std::string>& each : features_of(network)) {
        out << "features:\n";
        write_wrapped(printable_words(each), out);
    }
    text_table table({"node", "operator", "takes", "gives"});
    for (std::size_t at = 0; at < network.body.nodes.size(); ++at) {
        const nn::node& each = network.body.nodes[at];
        table.add({each.name.empty() ? "#" + std::to_string(at) : each.name, operator_of(each), joined(each.inputs),
                   joined(each.outputs)});
    }
    out << table;
    if (!passes.empty()) {
        write_passes(passes, out);
        write_steps(steps_after(passes), out);
    }
    if (rows)
        out << (rows->is_proven ? "rows of a batch are independent: " : "rows of a batch may depend on each other: ")
            << rows->text() << '\n';
    out << (refusal            ? "`sluice run` refuses it: " + *refusal
            : by_rows(network) ? std::string("`sluice run` runs it row by row")
                               : std::string("`sluice run` runs it"))
        << '\n';
}

void describe_operators(bool as_json, std::ostream& out) {
    const std::vector<nn::known_operator> known = nn::known_operators();
    auto list = nlohmann::json::array();
    std::vector<std::string> in_all, rows;
    for (std::size_t i = 0; i < known.size(); ++i) {
        const nn::known_operator& first = known[i];
        std::string versions;
        std::size_t last = i;
        for (; last < known.size() && known[last].name == first.name && known[last].domain == first.domain; ++last) {
            const nn::known_operator& each = known[last];
            versions += (versions.empty() ? "" : ", ") + std::to_string(each.since) +
                        (each.until ? " to " + std::to_string(*each.until) : " and later");
        }
        i = last - 1;
        list.push_back({{"domain", first.domain.empty() ? "ai.onnx" : first.domain},
                        {"operator", first.name},
                        {"versions", versions}});
        const std::string name =
            (first.domain.empty() ? "" : std::string(first.domain) + ".") + std::string(first.name);
        if (versions == "1 and later")
            in_all.push_back(name);
        else
            rows.push_back("| " + name + " | " + versions + " |\n");
    }
    if (as_json) {
        out << json_line({{"operators", list}}) << '\n';
        return;
    }
    out << "In all versions of their operator sets:\n\n";
    write_wrapped(in_all, out);
    out << "\n| operator | versions of its operator set |\n|---|---|\n";
    for (const std::string& row : rows) out << row;
}

}  // namespace sluice::app
