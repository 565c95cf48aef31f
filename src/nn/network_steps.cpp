// SPDX-License-Identifier: Apache-2.0
#include "nn/network_steps.hpp"

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/prepared_network.hpp"
#include "sluice/nn/network.hpp"

namespace sluice::nn {
namespace detail {
namespace {

std::string operator_of(const node& each) { return each.domain.empty() ? each.op : each.domain + "." + each.op; }

// Without values that are left out, and without those that passes have made: these have no names.
std::vector<std::string> names_of(const std::vector<slot>& values, const prepared_graph& in) {
    std::vector<std::string> names;
    for (const slot each : values)
        if (each < in.names.size() && !in.names[each].empty()) names.push_back(in.names[each]);
    return names;
}

network_step shown(const step& each, const prepared_graph& in) {
    network_step made;
    made.name = each.label;
    made.operators.push_back(operator_of(*each.from));
    for (const node* const other : each.also) made.operators.push_back(operator_of(*other));
    made.inputs = names_of(each.inputs, in);
    made.outputs = names_of(each.outputs, in);
    made.is_on_host = each.is_on_host;
    made.may_join_next = each.leaves_to_next;
    for (const auto& [name, value] : each.from->attributes) {  // in the order of their names
        const auto* const body = std::get_if<std::shared_ptr<const graph>>(&value);
        if (body == nullptr) continue;
        const prepared_graph& inner = *each.inner.at(body->get());
        made.parts.push_back({names_of(inner.inputs, inner), names_of(inner.outputs, inner), steps_of(inner)});
    }
    return made;
}

}  // namespace

std::vector<network_step> steps_of(const prepared_graph& in) {
    std::vector<network_step> made;
    for (const step& each : in.steps) made.push_back(shown(each, in));
    return made;
}

}  // namespace detail

std::vector<network_step> network::steps() const {
    std::vector<network_step> made;
    if (made_->front() != nullptr) made = detail::steps_of(made_->front()->body());
    std::vector<network_step> rest = detail::steps_of(made_->body());
    made.insert(made.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    return made;
}

}  // namespace sluice::nn
