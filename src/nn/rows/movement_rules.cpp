// SPDX-License-Identifier: Apache-2.0
// Operators that move elements.
#include <algorithm>
#include <limits>
#include <numeric>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

// More than any length.
constexpr std::int64_t far_away = std::numeric_limits<std::int32_t>::max();

void transpose(rule_call& in) {
    const amounts& from = in.shape(0);
    std::vector<std::int64_t> order(from.size());
    std::iota(order.rbegin(), order.rend(), 0);
    if (const auto given = in.list("perm")) order = *given;
    if (order.size() != from.size()) throw cannot_follow{"has an order of axes that does not fit"};
    open_shape to;
    std::optional<std::size_t> axis;
    for (std::size_t d = 0; d < order.size(); ++d) {
        const std::size_t of = in.axis_of(order[d], from.size());
        if (in.axis(0) == of) axis = d;
        to.emplace_back(from[of]);
    }
    in.give(0, std::move(to), axis);
}

void tile(rule_call& in) {
    const amounts& from = in.shape(0);
    const amounts times = in.numbers(1);
    if (times.size() != from.size()) throw cannot_follow{"has repeats that do not fit"};
    open_shape to;
    const auto axis = in.axis(0);
    std::optional<std::size_t> made = axis;
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (axis == d && !times[d].is(1)) throw cannot_follow{"repeats all rows together"};
        if (times[d].depends_on_rows()) {
            if (made || !from[d].is(1) || !times[d].is_multiple_of_rows() || !times[d].without_rows().is_whole())
                throw cannot_follow{"repeats elements as often as there are rows"};
            made = d;
        }
        to.emplace_back(from[d] * times[d]);
    }
    in.give(0, std::move(to), made);
}

struct slice_part {
    std::size_t axis;
    amount begin, end;
    std::int64_t step;
};

std::vector<slice_part> slice_parts(rule_call& in, std::size_t rank) {
    const bool has_inputs = in.input_count() > 1;
    const auto attribute = [&](std::string_view name) {
        amounts made;
        if (const auto list = in.list(name)) made.assign(list->begin(), list->end());
        return made;
    };
    const amounts begin = has_inputs ? in.numbers(1) : attribute("starts"),
                  end = has_inputs ? in.numbers(2) : attribute("ends");
    std::vector<std::int64_t> axes(begin.size()), steps(begin.size(), 1);
    std::iota(axes.begin(), axes.end(), 0);
    if (has_inputs && in.has_input(3)) axes = in.integers(3);
    if (!has_inputs && in.list("axes")) axes = *in.list("axes");
    if (in.has_input(4)) steps = in.integers(4);
    if (end.size() != begin.size() || axes.size() != begin.size() || steps.size() != begin.size())
        throw cannot_follow{"has bounds that do not fit"};
    std::vector<slice_part> made;
    for (std::size_t i = 0; i < axes.size(); ++i)
        made.push_back({in.axis_of(axes[i], rank), begin[i], end[i], steps[i]});
    return made;
}

void slice(rule_call& in) {
    const amounts& from = in.shape(0);
    open_shape to = open(from);
    std::vector<bool> columns = in.input(0).row_number_columns;
    for (const slice_part& each : slice_parts(in, from.size())) {
        const auto end = each.end.number();
        const bool is_whole =
            each.begin.is(0) && each.step == 1 && ((end && *end >= far_away) || each.end == from[each.axis]);
        if (is_whole) continue;
        require_other_axis(in.axis(0), each.axis, "takes a part");
        if (each.begin.depends_on_rows() || each.end.depends_on_rows())
            throw cannot_follow{"takes as many elements as there are rows"};
        to[each.axis].reset();
        if (!columns.empty() && each.axis + 1 == from.size()) throw cannot_follow{"uses the numbers of the rows"};
    }
    given_output& made = in.give(0, std::move(to), in.axis(0));
    made.is_row_number = in.input(0).is_row_number;
    made.row_number_columns = std::move(columns);
}

void split(rule_call& in) {
    const amounts& from = in.shape(0);
    const std::size_t axis = in.axis_of(in.integer("axis", 0), from.size());
    require_other_axis(in.axis(0), axis, "splits");
    std::optional<amounts> lengths;
    if (const auto list = in.list("split")) lengths.emplace(list->begin(), list->end());
    if (in.has_input(1)) lengths = in.numbers(1);
    // Also of an output that is not wanted: those after it begin where it ends.
    const auto depends = [](const amount& each) { return each.depends_on_rows(); };
    if (lengths && std::ranges::any_of(*lengths, depends))
        throw cannot_follow{"takes as many elements as there are rows"};
    for (std::size_t o = 0; o < in.output_count(); ++o) {
        open_shape to = open(from);
        to[axis].reset();
        if (lengths && o < lengths->size()) to[axis] = (*lengths)[o];
        in.give(o, std::move(to), in.axis(0));
    }
}

// The columns of the last dimension that are the numbers of the rows.
std::vector<bool> row_number_columns(const rule_call& in, std::size_t axis) {
    bool has_some = false;
    for (std::size_t i = 0; i < in.input_count(); ++i) has_some = has_some || in.input(i).has_row_numbers();
    std::vector<bool> columns;
    if (!has_some) return columns;
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        const followed& each = in.input(i);
        const auto width = in.shape(i).back().number();
        if (!width || axis + 1 != in.rank(i)) throw cannot_follow{"uses the numbers of the rows"};
        for (std::size_t c = 0; c < static_cast<std::size_t>(*width); ++c)
            columns.push_back(each.is_row_number || (!each.row_number_columns.empty() && each.row_number_columns[c]));
    }
    return columns;
}

void concat(rule_call& in) {
    const std::size_t rank = in.rank(0), axis = in.axis_of(in.integer("axis", 1), rank);
    std::optional<std::size_t> rows;
    std::optional<amount> length;
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        if (in.rank(i) != rank) throw cannot_follow{"has inputs that do not fit"};
        const auto its = in.axis(i);
        if (!its) continue;
        require_other_axis(its, axis, "puts tensors one after the other");
        if ((rows && rows != its) || (length && !(*length == in.shape(i)[*its])))
            throw cannot_follow{"puts tensors together whose rows are not at the same places"};
        rows = its;
        length = in.shape(i)[*its];
    }
    open_shape to = open(in.shape(0));
    amount sum(0);
    bool is_known = true;
    for (std::size_t i = 0; i < in.input_count(); ++i) {
        if (rows && !in.axis(i)) throw cannot_follow{"puts rows together with a tensor that has no rows"};
        const auto next = amount::sum(sum, in.shape(i)[axis]);
        is_known = is_known && next;
        if (next) sum = *next;
        for (std::size_t d = 0; d < rank; ++d)
            if (d != axis && in.shape(i)[d].number()) to[d] = in.shape(i)[d];
    }
    to[axis] = is_known ? std::optional(sum) : std::nullopt;
    in.give(0, std::move(to), rows).row_number_columns = rank == 0 ? std::vector<bool>() : row_number_columns(in, axis);
}

void blocks(rule_call& in) {
    if (in.axis(0).value_or(0) != 0) throw cannot_follow{"moves elements along the axis of the rows"};
    open_shape to(in.rank(0));
    if (!to.empty()) to[0] = in.shape(0)[0];
    in.give(0, std::move(to), in.axis(0));
}

void pad(rule_call& in) {
    for (std::size_t i = 1; i < in.input_count(); ++i) in.require_alike(i, "paddings");
    const amounts& from = in.shape(0);
    std::vector<std::int64_t> pads, axes(from.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (in.has_input(1)) {
        pads = in.integers(1);
    } else if (const auto given = in.list(in.what().attributes.contains("pads") ? "pads" : "paddings")) {
        pads = *given;
    }
    if (in.has_input(3)) axes = in.integers(3);
    if (pads.size() != 2 * axes.size()) throw cannot_follow{"has paddings that do not fit"};
    open_shape to = open(from);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (pads[i] == 0 && pads[i + axes.size()] == 0) continue;
        const std::size_t axis = in.axis_of(axes[i], from.size());
        require_other_axis(in.axis(0), axis, "adds or takes away elements");
        to[axis].reset();
    }
    in.give(0, std::move(to), in.axis(0));
}

// The last two dimensions are matrices.
void triangle(rule_call& in) {
    in.require_alike(1, "diagonals");
    if (const auto rows = in.axis(0); rows && *rows + 2 >= in.rank(0))
        throw cannot_follow{"treats each row in another way, by its number"};
    in.give(0, open(in.shape(0)), in.axis(0));
}

void reverse_sequence(rule_call& in) {
    const auto rows = in.axis(0);
    const std::size_t of_batch = in.axis_of(in.integer("batch_axis", 1), in.rank(0));
    require_other_axis(rows, in.axis_of(in.integer("time_axis", 0), in.rank(0)), "reverses");
    if (rows && (rows != of_batch || in.axis(1) != 0 || !(in.shape(1)[0] == in.shape(0)[*rows])))
        throw cannot_follow{"has lengths that do not belong to the rows"};
    if (!rows && in.axis(1)) throw cannot_follow{"has lengths that do not belong to the rows"};
    in.give(0, open(in.shape(0)), rows);
}

void center_crop_pad(rule_call& in) {
    in.require_alike(1, "shapes");
    open_shape to = open(in.shape(0));
    std::vector<std::int64_t> axes(in.rank(0));
    std::iota(axes.begin(), axes.end(), 0);
    if (const auto given = in.list("axes")) axes = *given;
    for (const std::int64_t each : axes) {
        const std::size_t axis = in.axis_of(each, in.rank(0));
        require_other_axis(in.axis(0), axis, "crops or pads");
        to[axis].reset();
    }
    in.give(0, std::move(to), in.axis(0));
}

}  // namespace

std::span<const rule_of_operator> movement_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "Transpose", .how = &transpose, .takes_runs = true},
        {.name = "Tile", .how = &tile},
        {.name = "Slice", .how = &slice, .takes_row_numbers = true},
        {.name = "Split", .how = &split},
        {.name = "Concat", .how = &concat, .takes_row_numbers = true},
        {.name = "DepthToSpace", .how = &blocks},
        {.name = "SpaceToDepth", .how = &blocks},
        {.name = "Pad", .how = &pad},
        {.name = "Trilu", .how = &triangle},
        {.name = "ReverseSequence", .how = &reverse_sequence},
        {.name = "CenterCropPad", .how = &center_crop_pad},
    };
    return all;
}

}  // namespace sluice::nn::rows
