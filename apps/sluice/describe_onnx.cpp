// SPDX-License-Identifier: Apache-2.0
#include "describe_onnx.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "json_line.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

// "f32 [batch, 64]"; a length without a name is "?", and so is a shape that the file does not say.
std::string text_of(const nn::value_info& value) {
    std::string text = std::string(to_string(value.type)) + " ";
    if (!value.shape) return text + "?";
    text += "[";
    for (std::size_t i = 0; i < value.shape->size(); ++i) {
        const nn::dimension& each = (*value.shape)[i];
        if (i != 0) text += ", ";
        text += each.length ? std::to_string(*each.length) : each.name.empty() ? "?" : each.name;
    }
    return text + "]";
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& each : names) text += (text.empty() ? "" : ", ") + (each.empty() ? "-" : each);
    return text;
}

std::string operator_of(const nn::node& each) { return each.domain.empty() ? each.op : each.domain + "." + each.op; }

nlohmann::json to_json(const std::vector<nn::value_info>& values) {
    auto array = nlohmann::json::array();
    for (const nn::value_info& each : values) {
        nlohmann::json one = {{"name", each.name}, {"type", to_string(each.type)}};
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

// Why `sluice run` refuses the network; none when it runs it.
std::optional<std::string> refusal_of(const nn::model& network) {
    try {
        nn::check_operators(network);
        return std::nullopt;
    } catch (const error& failure) {
        return failure.what();
    }
}

}  // namespace

void describe_onnx(const std::filesystem::path& model, bool as_json, std::ostream& out) {
    const nn::model network = nn::load_onnx(model);
    const std::optional<std::string> refusal = refusal_of(network);
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
        nlohmann::json all = {{"model", model.string()},
                              {"producer", network.producer},
                              {"opsets", nlohmann::json::object()},
                              {"inputs", to_json(network.body.inputs)},
                              {"outputs", to_json(network.body.outputs)},
                              {"nodes", nodes},
                              {"parameters", parameters},
                              {"runs", !refusal.has_value()}};
        for (const auto& [domain, version] : network.opsets)
            all["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
        if (refusal) all["refusal"] = *refusal;
        out << json_line(all) << '\n';
        return;
    }
    out << printable(model.native()) << ": " << network.body.nodes.size() << " nodes, " << parameters << " parameters";
    for (const auto& [domain, version] : network.opsets)
        out << ", " << (domain.empty() ? "ai.onnx" : printable(domain)) << " " << version;
    if (!network.producer.empty()) out << ", made by " << printable(network.producer);
    out << '\n';
    for (const nn::value_info& each : network.body.inputs)
        out << "input " << printable(each.name) << ": " << printable(text_of(each)) << '\n';
    for (const nn::value_info& each : network.body.outputs)
        out << "output " << printable(each.name) << ": " << printable(text_of(each)) << '\n';
    text_table table({"node", "operator", "takes", "gives"});
    for (std::size_t at = 0; at < network.body.nodes.size(); ++at) {
        const nn::node& each = network.body.nodes[at];
        table.add({each.name.empty() ? "#" + std::to_string(at) : each.name, operator_of(each), joined(each.inputs),
                   joined(each.outputs)});
    }
    out << table;
    out << (refusal ? "`sluice run` refuses it: " + *refusal : std::string("`sluice run` runs it")) << '\n';
}

void describe_operators(bool as_json, std::ostream& out) {
    const std::vector<nn::known_operator> known = nn::known_operators();
    auto list = nlohmann::json::array();
    if (!as_json) out << "| operator | versions of its operator set |\n|---|---|\n";
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
        if (as_json) {
            list.push_back({{"domain", first.domain.empty() ? "ai.onnx" : first.domain},
                            {"operator", first.name},
                            {"versions", versions}});
        } else {
            out << "| " << (first.domain.empty() ? "" : std::string(first.domain) + ".") << first.name << " | "
                << (versions == "1 and later" ? "all" : versions) << " |\n";
        }
    }
    if (as_json) out << json_line({{"operators", list}}) << '\n';
}

}  // namespace sluice::app
