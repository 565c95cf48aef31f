// SPDX-License-Identifier: Apache-2.0
// Operators that give elements another shape, or make a tensor of a shape.
#include <algorithm>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

// Elements in the same order in another shape.
void give_reshaped(rule_call& in, const amounts& to) {
    given_output& made = in.give(0, open(to), in.axis(0));
    made.is_row_number = in.input(0).is_row_number;
    if (made.axis) {
        const reshaped_rows rows = rows_after_reshape(in.shape(0), *made.axis, in.input(0).runs, to);
        if (made.is_row_number && !rows.runs.is(1)) throw cannot_follow{"uses the numbers of the rows"};
        made.axis = rows.axis;
        made.runs = rows.runs;
    }
    if (!in.input(0).row_number_columns.empty()) throw cannot_follow{"uses the numbers of the rows"};
}

// What the -1 of a shape stands for.
amount length_left(rule_call& in, const amount& elements, const amount& others) {
    const amount made = elements / others;
    if (made.is_whole() || made.depends_on_rows()) return made;
    return in.symbols().named(to_string(elements) + " / " + to_string(others), true);
}

void reshape(rule_call& in) {
    const amounts& from = in.shape(0);
    amounts to = in.numbers(1);
    std::optional<std::size_t> left;
    amount others(1);
    for (std::size_t d = 0; d < to.size(); ++d) {
        if (to[d].is(0)) {
            if (in.integer("allowzero", 0) != 0 || d >= from.size()) throw cannot_follow{"gives an empty tensor"};
            to[d] = from[d];
        }
        if (to[d].is(-1)) {
            if (left) throw cannot_follow{"has a shape with several lengths that are left open"};
            left = d;
        } else if (!in.symbols().has_sign(to[d]) || to[d].is_negative()) {
            throw cannot_follow{"has a shape that is not known before the network runs"};
        } else {
            others = others * to[d];
        }
    }
    if (left) to[*left] = length_left(in, product(from), others);
    give_reshaped(in, to);
}

void flatten(rule_call& in) {
    const std::span from(in.shape(0));
    const std::size_t at = in.axis_of(in.integer("axis", 1), from.size(), true);
    give_reshaped(in, {product(from.first(at)), product(from.subspan(at))});
}

std::optional<std::vector<std::int64_t>> axes_of_node(const rule_call& in) {
    if (in.has_input(1)) return in.integers(1);
    return in.list("axes");
}

void squeeze(rule_call& in) {
    const auto named = axes_of_node(in);
    const amounts& from = in.shape(0);
    if (!named && in.axis(0)) throw cannot_follow{"leaves out the axis of the rows when there is one row"};
    if (!named) throw cannot_follow{"does not name its axes"};
    std::vector<bool> is_left_out(from.size());
    for (const std::int64_t each : *named) is_left_out[in.axis_of(each, from.size())] = true;
    open_shape to;
    std::optional<std::size_t> axis;
    for (std::size_t d = 0; d < from.size(); ++d) {
        const bool is_rows = in.axis(0) == d;
        if (is_left_out[d] && is_rows) throw cannot_follow{"leaves out the axis of the rows"};
        if (is_left_out[d]) continue;
        if (is_rows) axis = to.size();
        to.emplace_back(from[d]);
    }
    if (!in.input(0).row_number_columns.empty()) throw cannot_follow{"uses the numbers of the rows"};
    in.give(0, std::move(to), axis).is_row_number = in.input(0).is_row_number;
}

void unsqueeze(rule_call& in) {
    const auto named = axes_of_node(in);
    if (!named) throw cannot_follow{"does not name its axes"};
    const amounts& from = in.shape(0);
    const std::size_t rank = from.size() + named->size();
    std::vector<bool> is_new(rank);
    for (const std::int64_t each : *named) is_new[in.axis_of(each, rank)] = true;
    open_shape to;
    std::optional<std::size_t> axis;
    std::size_t next = 0;
    for (std::size_t d = 0; d < rank; ++d) {
        if (is_new[d]) {
            to.emplace_back(amount(1));
            continue;
        }
        if (next == from.size()) throw cannot_follow{"names an axis twice"};
        if (in.axis(0) == next) axis = d;
        to.emplace_back(from[next++]);
    }
    if (!in.input(0).row_number_columns.empty()) throw cannot_follow{"uses the numbers of the rows"};
    in.give(0, std::move(to), axis).is_row_number = in.input(0).is_row_number;
}

// The dimension that has the number of rows; none: there is none.
std::optional<std::size_t> rows_among(const amounts& lengths) {
    std::optional<std::size_t> found;
    for (std::size_t d = 0; d < lengths.size(); ++d) {
        if (!lengths[d].depends_on_rows()) continue;
        if (found) throw cannot_follow{"gives a shape with the number of rows in two dimensions"};
        if (!lengths[d].is_multiple_of_rows() || !lengths[d].without_rows().is_whole())
            throw cannot_follow{"gives a shape in which a row is not a part of its own"};
        found = d;
    }
    return found;
}

void constant_of_shape(rule_call& in) {
    const amounts to = in.numbers(0);
    in.give(0, open(to), rows_among(to));
}

void expand(rule_call& in) {
    const amounts& from = in.shape(0);
    const amounts wanted = in.numbers(1);
    const std::size_t rank = std::max(from.size(), wanted.size());
    const auto length = [&](const amounts& of, std::size_t d) {
        return d + of.size() < rank ? amount(1) : of[d + of.size() - rank];
    };
    std::optional<std::size_t> axis = in.axis(0);
    if (axis) axis = *axis + rank - from.size();
    open_shape to(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        const amount has = length(from, d), asks = length(wanted, d);
        if (asks.is(1) || asks == has) {
            to[d] = has;
        } else if (has.is(1)) {
            if (asks.depends_on_rows()) {
                if (axis) throw cannot_follow{"gives a shape with the number of rows in two dimensions"};
                if (!asks.is_multiple_of_rows() || !asks.without_rows().is_whole())
                    throw cannot_follow{"gives a shape in which a row is not a part of its own"};
                axis = d;
            }
            to[d] = asks;
        } else if (has.depends_on_rows() || asks.depends_on_rows()) {
            throw cannot_follow{"combines the rows with a tensor that has several elements along their axis"};
        }
    }
    given_output& made = in.give(0, std::move(to), axis);
    made.is_row_number = in.input(0).is_row_number;
    const auto& columns = in.input(0).row_number_columns;
    if (!columns.empty()) {
        if (!made.shape.back() || !(*made.shape.back() == from.back()))
            throw cannot_follow{"uses the numbers of the rows"};
        made.row_number_columns = columns;
    }
}

// 0, 1, ... up to the number of rows: each row's element is its number.
void range(rule_call& in) {
    const amounts begin = in.numbers(0), end = in.numbers(1), step = in.numbers(2);
    if (begin.size() != 1 || end.size() != 1 || step.size() != 1) throw cannot_follow{"takes one number each"};
    if (begin[0].depends_on_rows() || step[0].depends_on_rows())
        throw cannot_follow{"computes with the number of rows"};
    const bool counts = begin[0].is(0) && step[0].is(1);
    if (!end[0].depends_on_rows()) {
        const bool is_length = counts && in.symbols().has_sign(end[0]) && !end[0].is_negative();
        in.give(0, {is_length ? std::optional(end[0]) : std::nullopt}, {});
        return;
    }
    if (!counts || !(end[0] == amount::of(row_count))) throw cannot_follow{"computes with the number of rows"};
    in.give(0, {end[0]}, 0).is_row_number = true;
}

}  // namespace

std::span<const rule_of_operator> shape_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "Reshape", .how = &reshape, .takes_row_numbers = true, .takes_runs = true},
        {.name = "Flatten", .how = &flatten, .takes_runs = true},
        {.name = "Squeeze", .how = &squeeze, .takes_row_numbers = true},
        {.name = "Unsqueeze", .how = &unsqueeze, .takes_row_numbers = true},
        {.name = "ConstantOfShape", .how = &constant_of_shape},
        {.name = "Expand", .how = &expand, .takes_row_numbers = true},
        {.name = "Range", .how = &range},
    };
    return all;
}

}  // namespace sluice::nn::rows
