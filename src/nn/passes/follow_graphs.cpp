// SPDX-License-Identifier: Apache-2.0
#include "nn/passes/follow_graphs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "nn/rows/shape_numbers.hpp"

namespace sluice::nn::detail {
namespace {

using rows::amount;
using rows::amounts;
using rows::cannot_follow;
using rows::company;
using rows::followed;

std::vector<std::int64_t> list_of(const node& which, std::string_view name) {
    const auto* const found = which.find<std::vector<std::int64_t>>(name);
    return found != nullptr ? *found : std::vector<std::int64_t>();
}
std::int64_t axis_at(const std::vector<std::int64_t>& all, std::size_t i) { return i < all.size() ? all[i] : 0; }

// The state that the body is given, which it must give back as it is.
followed state_of(const followed& given, const graph& body, std::size_t i, bool is_over_rows) {
    std::string name = body.outputs[i].name;
    for (std::size_t n = body.nodes.size(); n-- > 0;) {
        const node& each = body.nodes[n];
        if (each.domain.empty() && each.op == "Identity" && each.outputs[0] == name) name = each.inputs[0];
    }
    if (name != body.inputs[i].name) throw cannot_follow{"carries numbers from one round to the next"};
    if (is_over_rows && !given.is_alike()) throw cannot_follow{"takes all rows in each round"};
    return given;
}

// What a round is given, without the axis of the rounds. One row is as something that no other row changes.
followed slice_of(const followed& given, std::int64_t axis, bool is_over_rows, amount& rounds) {
    const bool is_known = given.shape.has_value() && !given.has_row_numbers();
    const auto rank = static_cast<std::int64_t>(is_known ? given.shape->size() : 0);
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) throw cannot_follow{"goes through steps that are not known"};
    const auto place = static_cast<std::size_t>(at);
    rounds = (*given.shape)[place];
    const bool are_rows = given.has_rows() && place == given.axis && rounds == amount::of(rows::row_count);
    if (is_over_rows ? !are_rows : !given.is_alike()) throw cannot_follow{"goes through steps that are not the rows"};
    followed made;
    made.type = given.type;
    made.shape = given.shape;
    made.shape->erase(made.shape->begin() + at);
    return made;
}

bool has_symbol_from(const amounts& shape, std::size_t first) {
    return std::ranges::any_of(shape, [&](const amount& each) {
        return std::ranges::any_of(each.powers(), [&](const auto& one) { return one.first >= first; });
    });
}

followed joined_rounds(const followed& round, std::int64_t axis, const amount& rounds) {
    if (round.what == company::mixed)
        throw cannot_follow{"has a graph of its own in which a node " + round.because->why};
    if (!round.shape || round.what == company::counts || round.has_row_numbers())
        throw cannot_follow{"has a graph of its own, into which rows are not followed"};
    const auto rank = static_cast<std::int64_t>(round.shape->size()) + 1;
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) throw cannot_follow{"has an axis that its output does not have"};
    followed made;
    made.type = round.type;
    made.shape = round.shape;
    made.shape->insert(made.shape->begin() + at, rounds);
    const auto place = static_cast<std::size_t>(at);
    const bool is_over_rows = rounds.depends_on_rows();
    made.what = is_over_rows || round.has_rows() ? company::rows : company::alike;
    made.axis = is_over_rows ? place : round.axis < place ? round.axis : round.axis + 1;
    return made;
}

std::vector<followed> of_both(graph_walk& by, const std::vector<followed>& a, const std::vector<followed>& b) {
    std::vector<followed> made;
    for (std::size_t o = 0; o < a.size(); ++o) {
        if (a[o].what == company::mixed || b[o].what == company::mixed) {
            made.push_back(a[o].what == company::mixed ? a[o] : b[o]);
            continue;
        }
        const bool is_same = a[o].what == b[o].what && a[o].axis == b[o].axis && a[o].runs == b[o].runs &&
                             a[o].is_row_number == b[o].is_row_number &&
                             a[o].row_number_columns == b[o].row_number_columns;
        if (!is_same || a[o].what == company::counts)
            throw cannot_follow{"has branches that do different things with the rows"};
        followed next = a[o];
        next.known = {};
        next.elements.reset();
        if (!a[o].shape || !b[o].shape || a[o].shape->size() != b[o].shape->size()) {
            if (next.has_rows()) throw cannot_follow{"has branches that do different things with the rows"};
            next.shape.reset();
        } else {
            for (std::size_t d = 0; d < next.shape->size(); ++d) {
                if ((*a[o].shape)[d] == (*b[o].shape)[d]) continue;
                if (next.has_rows() && d == next.axis)
                    throw cannot_follow{"has branches that do different things with the rows"};
                (*next.shape)[d] = by.new_length();
            }
        }
        made.push_back(std::move(next));
    }
    return made;
}

}  // namespace

const graph* graph_of(const attribute& value) {
    const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value);
    return inner != nullptr ? inner->get() : nullptr;
}

void add_used(const graph& in, std::set<std::string>& to) {
    std::set<std::string> used, given;
    for (const value_info& each : in.inputs) given.insert(each.name);
    for (const auto& [name, value] : in.constants) given.insert(name);
    for (const node& each : in.nodes) {
        used.insert(each.inputs.begin(), each.inputs.end());
        for (const auto& [name, value] : each.attributes)
            if (const graph* const inner = graph_of(value)) add_used(*inner, used);
    }
    for (const value_info& each : in.outputs) used.insert(each.name);
    for (const node& each : in.nodes) given.insert(each.outputs.begin(), each.outputs.end());
    std::ranges::copy_if(used, std::inserter(to, to.end()),
                         [&](const std::string& name) { return !name.empty() && !given.contains(name); });
}

// --- Scan ---

// The rounds of a Scan are independent where each state stays what it is at first. They are the rows, or steps of
// something that is the same for any rows.
std::vector<followed> follow_rounds(graph_walk& by, const node_to_try& which,
                                    const std::vector<const followed*>& inputs, const followed_values& known) {
    const node& its = which.which;
    const auto* const inner = its.find<std::shared_ptr<const graph>>("body");
    const auto* const scanned = its.find<std::int64_t>("num_scan_inputs");
    const std::size_t slices = scanned != nullptr ? static_cast<std::size_t>(*scanned) : 0;
    if (which.opset < 9 || inner == nullptr || slices == 0 || slices > inputs.size() ||
        (*inner)->inputs.size() != inputs.size() || (*inner)->outputs.size() != its.outputs.size() ||
        std::ranges::find(inputs, nullptr) != inputs.end())
        throw cannot_follow{"has a graph of its own, into which rows are not followed"};
    const graph& body = **inner;
    const std::size_t states = inputs.size() - slices;
    for (const std::string_view each : {"scan_input_directions", "scan_output_directions"})
        if (std::ranges::any_of(list_of(its, each), [](std::int64_t one) { return one != 0; }))
            throw cannot_follow{"goes through its rounds backwards"};
    const bool is_over_rows = std::any_of(inputs.begin() + static_cast<std::ptrdiff_t>(states), inputs.end(),
                                          [](const followed* each) { return each->has_rows(); });
    std::set<std::string> used;
    add_used(body, used);
    for (const std::string& name : used) {
        const auto found = known.find(name);
        if (is_over_rows && found != known.end() && !found->second.is_alike())
            throw cannot_follow{"has a graph of its own that takes the rows from outside"};
    }
    followed_values inside = known;
    amount rounds;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::int64_t axis = i < states ? 0 : axis_at(list_of(its, "scan_input_axes"), i - states);
        inside.insert_or_assign(body.inputs[i].name, i < states ? state_of(*inputs[i], body, i, is_over_rows)
                                                                : slice_of(*inputs[i], axis, is_over_rows, rounds));
    }
    // Inside, one row is as something that no other row changes. But a length that is first found there may be
    // another one for each row.
    const std::size_t symbols_outside = by.symbol_count();
    by.walk(body, inside);
    std::vector<followed> made;
    for (std::size_t o = 0; o < body.outputs.size(); ++o) {
        const followed& round = inside.at(body.outputs[o].name);
        if (is_over_rows && o >= states && round.shape && has_symbol_from(*round.shape, symbols_outside))
            throw cannot_follow{"has a graph of its own that may give each row another length"};
        made.push_back(o < states
                           ? *inputs[o]
                           : joined_rounds(round, axis_at(list_of(its, "scan_output_axes"), o - states), rounds));
    }
    return made;
}

// --- If ---

// A condition that is the same for all rows chooses for all of them.
std::vector<followed> follow_branches(graph_walk& by, const node_to_try& which,
                                      const std::vector<const followed*>& inputs, const followed_values& known) {
    const followed* const condition = inputs.empty() ? nullptr : inputs[0];
    if (condition == nullptr || !condition->is_alike()) throw cannot_follow{"has a condition that depends on the rows"};
    const auto numbers = rows::elements_of(*condition);
    std::optional<std::vector<followed>> made;
    for (const std::string_view name : {"then_branch", "else_branch"}) {
        const bool is_then = name == "then_branch";
        if (numbers && numbers->size() == 1 && numbers->front().number() && numbers->front().is(0) == is_then) continue;
        const auto* const inner = which.which.find<std::shared_ptr<const graph>>(name);
        if (inner == nullptr) throw cannot_follow{"lacks a branch"};
        followed_values inside = known;
        by.walk(**inner, inside);
        std::vector<followed> outputs;
        for (const value_info& each : (*inner)->outputs) outputs.push_back(inside.at(each.name));
        if (outputs.size() != which.which.outputs.size()) throw cannot_follow{"has a branch with other outputs"};
        made = made ? of_both(by, *made, outputs) : std::move(outputs);
    }
    return *made;
}

}  // namespace sluice::nn::detail
