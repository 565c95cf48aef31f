// SPDX-License-Identifier: Apache-2.0
#include "sluice/profiling/step_names.hpp"

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace sluice::profiling {
namespace {

using known_names = std::set<std::string, std::less<>>;

void collect(const nn::graph& from, known_names& names) {
    for (const nn::node& each : from.nodes) {
        names.insert(each.name);
        for (const auto& [name, value] : each.attributes)
            if (const auto* const inner = std::get_if<std::shared_ptr<const nn::graph>>(&value))
                collect(**inner, names);
    }
}

std::string new_name(const nn::node& of, std::size_t position, const known_names& names) {
    std::string made = "#" + std::to_string(position) + " " + (of.name.empty() ? of.op : of.name);
    while (names.contains(made)) made += "'";
    return made;
}

void name(nn::graph& in, known_names& given, known_names& used) {
    for (std::size_t i = 0; i < in.nodes.size(); ++i) {
        nn::node& each = in.nodes[i];
        const bool is_new = !each.name.empty() && used.insert(each.name).second;
        if (!is_new) {
            each.name = new_name(each, i, given);
            given.insert(each.name);
            used.insert(each.name);
        }
        for (auto& [attribute, value] : each.attributes) {
            auto* const inner = std::get_if<std::shared_ptr<const nn::graph>>(&value);
            if (inner == nullptr) continue;
            const auto copy = std::make_shared<nn::graph>(**inner);
            name(*copy, given, used);
            *inner = copy;
        }
    }
}

}  // namespace

nn::model with_distinct_names(nn::model network) {
    known_names given, used;
    collect(network.body, given);
    name(network.body, given, used);
    return network;
}

}  // namespace sluice::profiling
