// SPDX-License-Identifier: Apache-2.0
// Operators that compute along some axes: reductions, normalizations, sums up to each element, spectra, losses.
#include <algorithm>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

void reduce_axes(rule_call& in) {
    const amounts& from = in.shape(0);
    std::vector<std::int64_t> axes;
    if (in.has_input(1)) {
        axes = in.integers(1);
    } else if (const auto given = in.list("axes")) {
        axes = *given;
    }
    if (axes.empty() && in.integer("noop_with_empty_axes", 0) != 0) {
        in.give(0, open(from), in.axis(0));
        return;
    }
    std::vector<bool> is_reduced(from.size(), axes.empty());
    for (const std::int64_t each : axes) is_reduced[in.axis_of(each, from.size())] = true;
    const bool is_kept = in.integer("keepdims", 1) != 0;
    open_shape to;
    std::optional<std::size_t> rows;
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (in.axis(0) == d && is_reduced[d]) throw cannot_follow{"computes one number from all rows"};
        if (in.axis(0) == d) rows = to.size();
        if (!is_reduced[d]) to.emplace_back(from[d]);
        if (is_reduced[d] && is_kept) to.emplace_back(amount(1));
    }
    in.give(0, std::move(to), rows);
}

void index_along(rule_call& in) {
    const amounts& from = in.shape(0);
    const std::size_t axis = in.axis_of(in.integer("axis", 0), from.size());
    require_other_axis(in.axis(0), axis, "looks for the largest or smallest element");
    open_shape to = open(from);
    std::optional<std::size_t> rows = in.axis(0);
    if (in.integer("keepdims", 1) != 0) {
        to[axis] = amount(1);
    } else {
        to.erase(to.begin() + static_cast<std::ptrdiff_t>(axis));
        if (rows && *rows > axis) rows = *rows - 1;
    }
    in.give(0, std::move(to), rows);
}

void largest_along(rule_call& in) {
    in.require_alike(1, "a number of elements");
    const std::size_t axis = in.axis_of(in.integer("axis", -1), in.rank(0));
    require_other_axis(in.axis(0), axis, "looks for the largest elements");
    for (std::size_t o = 0; o < in.output_count(); ++o) {
        open_shape to = open(in.shape(0));
        to[axis].reset();
        in.give(o, std::move(to), in.axis(0));
    }
}

// Before operator set 13 all dimensions from the axis on are one.
void softmax_along(rule_call& in) {
    const bool is_flat = in.opset() < 13;
    const std::size_t axis = in.axis_of(in.integer("axis", is_flat ? 1 : -1), in.rank(0), true);
    const auto rows = in.axis(0);
    if (rows && (is_flat ? *rows >= axis : *rows == axis))
        throw cannot_follow{"is computed along the axis of the rows"};
    in.give(0, open(in.shape(0)), rows);
}

void norm_along(rule_call& in) {
    require_other_axis(in.axis(0), in.axis_of(in.integer("axis", -1), in.rank(0)), "is computed");
    in.give(0, open(in.shape(0)), in.axis(0));
}

void sum_along(rule_call& in) {
    const auto axis = in.integers(1);
    if (axis.size() != 1) throw cannot_follow{"takes one axis"};
    require_other_axis(in.axis(0), in.axis_of(axis[0], in.rank(0)), "adds up or multiplies");
    in.give(0, open(in.shape(0)), in.axis(0));
}

// All dimensions from the axis on.
void layer_normalization_rows(rule_call& in) {
    const std::size_t rank = in.rank(0), axis = in.axis_of(in.integer("axis", -1), rank);
    const auto rows = in.axis(0);
    if (rows && *rows >= axis) throw cannot_follow{"is computed along the axis of the rows"};
    for (std::size_t i = 1; i < in.input_count(); ++i) {
        in.require_alike(i, "factors");
        if (rows) require_one_along(in, i, rank, *rows);
    }
    in.give(0, open(in.shape(0)), rows);
    for (std::size_t o = 1; o < in.output_count(); ++o) {
        open_shape to = open(in.shape(0));
        std::fill(to.begin() + static_cast<std::ptrdiff_t>(axis), to.end(), amount(1));
        in.give(o, std::move(to), rows);
    }
}

// Of each image, or of groups of its channels.
void image_normalization(rule_call& in) {
    if (in.axis(0).value_or(0) != 0) throw cannot_follow{"takes images whose first dimension is not the rows"};
    for (std::size_t i = 1; i < in.input_count(); ++i) in.require_alike(i, "factors");
    in.give(0, open(in.shape(0)), in.axis(0));
}

void batch_normalization_rows(rule_call& in) {
    const bool is_training = in.opset() >= 14  ? in.integer("training_mode", 0) != 0
                             : in.opset() >= 7 ? in.output_count() > 1
                                               : in.integer("is_test", 0) == 0;
    if (is_training && in.axis(0)) throw cannot_follow{"computes the mean of all rows, as in training"};
    if (is_training) throw cannot_follow{"is in training"};
    if (in.axis(0).value_or(0) != 0) throw cannot_follow{"takes images whose first dimension is not the rows"};
    for (std::size_t i = 1; i < in.input_count(); ++i) in.require_alike(i, "factors");
    in.give(0, open(in.shape(0)), in.axis(0));
}

void mean_variance_rows(rule_call& in) {
    const std::vector<std::int64_t> axes = in.list("axes").value_or(std::vector<std::int64_t>{0, 2, 3});
    for (const std::int64_t each : axes) require_other_axis(in.axis(0), in.axis_of(each, in.rank(0)), "is computed");
    in.give(0, open(in.shape(0)), in.axis(0));
}

// Over neighbouring channels.
void local_normalization(rule_call& in) {
    require_other_axis(in.axis(0), 1, "is computed");
    in.give(0, open(in.shape(0)), in.axis(0));
}

void spectrum_along(rule_call& in) {
    for (std::size_t i = 1; i < in.input_count(); ++i) in.require_alike(i, "lengths or axes");
    const std::size_t rank = in.rank(0);
    std::int64_t axis = in.opset() < 20 ? in.integer("axis", 1) : -2;
    if (in.has_input(2)) axis = in.integers(2).at(0);
    const std::size_t along = in.axis_of(axis, rank);
    require_other_axis(in.axis(0), along, "computes a spectrum");
    require_other_axis(in.axis(0), rank - 1, "has real and imaginary parts");
    open_shape to = open(in.shape(0));
    to[along].reset();
    to.back().reset();
    in.give(0, std::move(to), in.axis(0));
}

void short_spectra(rule_call& in) {
    if (in.axis(0).value_or(0) != 0) throw cannot_follow{"takes signals whose first dimension is not the rows"};
    for (std::size_t i = 1; i < in.input_count(); ++i) in.require_alike(i, "steps, windows or lengths");
    in.give(0, {in.shape(0).at(0), std::nullopt, std::nullopt, amount(2)}, in.axis(0));
}

// A loss of each element, without the mean or the sum.
void loss_of_each(rule_call& in) {
    if (in.text("reduction", "mean") != "none" && (in.axis(0) || in.axis(1)))
        throw cannot_follow{"computes one number from all rows"};
    in.require_alike(2, "weights");
    if (in.axis(0) != in.axis(1) || in.axis(0).value_or(0) != 0)
        throw cannot_follow{"has labels whose rows are not at the places of its rows"};
    const bool is_each = in.text("reduction", "mean") == "none";
    in.give(0, is_each ? open(in.shape(1)) : open_shape(), in.axis(0));
    if (in.wants_output(1)) in.give(1, open(in.shape(0)), in.axis(0));
}

}  // namespace

std::span<const rule_of_operator> reduction_rules() {
    static const std::vector<rule_of_operator> all = [] {
        std::vector<rule_of_operator> made{
            {.name = "ArgMax", .how = &index_along},
            {.name = "ArgMin", .how = &index_along},
            {.name = "TopK", .how = &largest_along},
            {.name = "Softmax", .how = &softmax_along},
            {.name = "LogSoftmax", .how = &softmax_along},
            {.name = "Hardmax", .how = &softmax_along},
            {.name = "LpNormalization", .how = &norm_along},
            {.name = "CumSum", .how = &sum_along},
            {.name = "CumProd", .how = &sum_along},
            {.name = "LayerNormalization", .how = &layer_normalization_rows},
            {.name = "RMSNormalization", .how = &layer_normalization_rows},
            {.name = "InstanceNormalization", .how = &image_normalization},
            {.name = "GroupNormalization", .how = &image_normalization},
            {.name = "BatchNormalization", .how = &batch_normalization_rows},
            {.name = "MeanVarianceNormalization", .how = &mean_variance_rows},
            {.name = "LRN", .how = &local_normalization},
            {.name = "DFT", .how = &spectrum_along},
            {.name = "STFT", .how = &short_spectra},
            {.name = "NegativeLogLikelihoodLoss", .how = &loss_of_each},
            {.name = "SoftmaxCrossEntropyLoss", .how = &loss_of_each},
        };
        for (const std::string_view each :
             {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
              "ReduceLogSumExp", "ReduceSumSquare"})
            made.push_back({.name = each, .how = &reduce_axes});
        return made;
    }();
    return all;
}

}  // namespace sluice::nn::rows
