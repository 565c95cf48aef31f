// SPDX-License-Identifier: Apache-2.0
// Operators that take elements by their numbers. An index that is computed from a row selects for this row only.
#include <algorithm>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

void gather(rule_call& in) {
    const amounts &data = in.shape(0), &indices = in.shape(1);
    const std::size_t axis = in.axis_of(in.integer("axis", 0), data.size());
    const auto of_data = in.axis(0), of_indices = in.axis(1);
    require_other_axis(of_data, axis, "takes elements");
    if (of_data && of_indices) throw cannot_follow{"takes from each row what each other row asks for"};
    open_shape to;
    for (std::size_t d = 0; d < axis; ++d) to.emplace_back(data[d]);
    for (const amount& each : indices) to.emplace_back(each);
    for (std::size_t d = axis + 1; d < data.size(); ++d) to.emplace_back(data[d]);
    std::optional<std::size_t> rows;
    if (of_indices) rows = axis + *of_indices;
    if (of_data) rows = *of_data < axis ? *of_data : *of_data + indices.size() - 1;
    in.give(0, std::move(to), rows);
}

// Both have the rows at one axis, which is not the one along which elements are taken.
void require_same_rows(const rule_call& in, std::size_t i, std::size_t k) {
    if (in.axis(i) != in.axis(k) || (in.axis(i) && !(in.shape(i)[*in.axis(i)] == in.shape(k)[*in.axis(k)])))
        throw cannot_follow{"has indices whose rows are not at the places of its rows"};
}

void gather_elements(rule_call& in) {
    require_other_axis(in.axis(0), in.axis_of(in.integer("axis", 0), in.rank(0)), "takes elements");
    require_same_rows(in, 0, 1);
    in.give(0, open(in.shape(1)), in.axis(1));
}

// Whether the first column of the indices is the number of the row, and no other one is.
bool begins_with_row_number(const followed& indices) {
    const auto& columns = indices.row_number_columns;
    return !columns.empty() && columns.front() && std::count(columns.begin(), columns.end(), true) == 1;
}

void gather_tuples(rule_call& in) {
    const amounts &data = in.shape(0), &indices = in.shape(1);
    const auto of_data = in.axis(0), of_indices = in.axis(1);
    const auto batches = static_cast<std::size_t>(std::max<std::int64_t>(in.integer("batch_dims", 0), 0));
    const auto width = indices.empty() ? std::nullopt : indices.back().number();
    if (!width || *width < 1 || batches + static_cast<std::size_t>(*width) > data.size())
        throw cannot_follow{"has indices of a length that is not known"};
    require_other_axis(of_indices, indices.size() - 1, "has indices");
    const std::size_t kept = batches + static_cast<std::size_t>(*width);
    std::optional<std::size_t> rows;
    if (!of_data && of_indices && *of_indices >= batches) {
        if (in.input(1).has_row_numbers()) throw cannot_follow{"uses the numbers of the rows"};
        rows = of_indices;
    } else if (of_data && *of_data < batches) {
        require_same_rows(in, 0, 1);
        if (in.input(1).has_row_numbers()) throw cannot_follow{"uses the numbers of the rows"};
        rows = of_data;
    } else if (of_data && *of_data >= kept && !of_indices) {
        rows = *of_data - kept + indices.size() - 1;
    } else if (of_data == 0 && batches == 0 && of_indices && begins_with_row_number(in.input(1)) &&
               data[0] == amount::of(row_count)) {
        rows = of_indices;
    } else if (of_data || of_indices) {
        throw cannot_follow{"takes elements along the axis of the rows"};
    }
    open_shape to = open(indices);
    to.pop_back();
    for (std::size_t d = kept; d < data.size(); ++d) to.emplace_back(data[d]);
    in.give(0, std::move(to), rows);
}

void scatter_elements(rule_call& in) {
    require_other_axis(in.axis(0), in.axis_of(in.integer("axis", 0), in.rank(0)), "writes elements");
    require_same_rows(in, 0, 1);
    require_same_rows(in, 0, 2);
    in.give(0, open(in.shape(0)), in.axis(0));
}

// The updates have the places of the indices.
void scatter_tuples(rule_call& in) {
    const auto rows = in.axis(0), of_indices = in.axis(1);
    if (rows || of_indices || in.axis(2)) {
        const bool is_followed = rows == 0 && of_indices == 0 && in.axis(2) == 0 && in.rank(1) > 1 &&
                                 begins_with_row_number(in.input(1)) && in.shape(0)[0] == amount::of(row_count) &&
                                 in.shape(1)[0] == in.shape(2)[0];
        if (!is_followed) throw cannot_follow{"writes elements along the axis of the rows"};
    }
    in.give(0, open(in.shape(0)), rows);
}

// Each sequence is written from an index of its own on.
void tensor_scatter(rule_call& in) {
    const auto rows = in.axis(0);
    require_other_axis(rows, in.axis_of(in.integer("axis", -2), in.rank(0)), "writes elements");
    if (rows || in.axis(1) || (in.has_input(2) && in.axis(2))) {
        const bool has_indices = in.has_input(2);
        if (rows != 0 || in.axis(1) != 0 || (has_indices && in.axis(2) != 0))
            throw cannot_follow{"has indices whose rows are not at the places of its rows"};
    }
    in.give(0, open(in.shape(0)), rows);
}

void one_hot(rule_call& in) {
    in.require_alike(1, "depths");
    in.require_alike(2, "values");
    const std::size_t rank = in.rank(0), at = in.axis_of(in.integer("axis", -1), rank + 1);
    open_shape to = open(in.shape(0));
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), std::nullopt);
    std::optional<std::size_t> rows = in.axis(0);
    if (rows && *rows >= at) rows = *rows + 1;
    in.give(0, std::move(to), rows);
}

}  // namespace

std::span<const rule_of_operator> indexing_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "Gather", .how = &gather},
        {.name = "GatherElements", .how = &gather_elements},
        {.name = "GatherND", .how = &gather_tuples, .takes_row_numbers = true},
        {.name = "Scatter", .how = &scatter_elements},
        {.name = "ScatterElements", .how = &scatter_elements},
        {.name = "ScatterND", .how = &scatter_tuples, .takes_row_numbers = true},
        {.name = "TensorScatter", .how = &tensor_scatter},
        {.name = "OneHot", .how = &one_hot},
    };
    return all;
}

}  // namespace sluice::nn::rows
