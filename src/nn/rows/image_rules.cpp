// SPDX-License-Identifier: Apache-2.0
// Convolutions, poolings, and other operators on images [rows, channels, ...]: an image is a row.
#include <algorithm>

#include "nn/rows/rule.hpp"

namespace sluice::nn::rows {
namespace {

// The lengths of an image's dimensions are left open.
open_shape of_images(const rule_call& in, std::size_t i, std::optional<amount> channels) {
    open_shape to(in.rank(i));
    if (to.size() < 2) throw cannot_follow{"takes images, and is given fewer dimensions"};
    to[0] = in.shape(i)[0];
    to[1] = std::move(channels);
    return to;
}

void require_first(const rule_call& in, std::size_t i) {
    if (in.has_input(i) && in.axis(i).value_or(0) != 0)
        throw cannot_follow{"takes images whose first dimension is not the rows"};
}

// All these inputs have the rows at their first dimension, or none has.
void require_all_first(const rule_call& in, std::initializer_list<std::size_t> inputs) {
    const std::size_t first = *inputs.begin();
    for (const std::size_t i : inputs) {
        if (!in.has_input(i)) continue;
        require_first(in, i);
        if (in.axis(i) != in.axis(first) || !(in.shape(i).at(0) == in.shape(first).at(0)))
            throw cannot_follow{"takes images together with what has other rows"};
    }
}

void give_convolution(rule_call& in, std::size_t x, std::size_t weights) {
    require_first(in, x);
    for (std::size_t i = 0; i < in.input_count(); ++i)
        if (i != x) in.require_alike(i, "weights, scales or zero points");
    in.give(0, of_images(in, x, in.rank(weights) > 0 ? std::optional(in.shape(weights)[0]) : std::nullopt), in.axis(x));
}

void convolution(rule_call& in) { give_convolution(in, 0, 1); }
void quantized_convolution(rule_call& in) { give_convolution(in, 0, 3); }

void transposed_convolution(rule_call& in) {
    require_first(in, 0);
    in.require_alike(1, "weights");
    in.require_alike(2, "weights");
    in.give(0, of_images(in, 0, std::nullopt), in.axis(0));
}

void deformed_convolution(rule_call& in) {
    require_all_first(in, {0, 2, 4});
    in.require_alike(1, "weights");
    in.require_alike(3, "weights");
    in.give(0, of_images(in, 0, in.shape(1).at(0)), in.axis(0));
}

void causal_convolution_rows(rule_call& in) {
    require_all_first(in, {0, 3});
    in.require_alike(1, "weights");
    in.require_alike(2, "weights");
    in.give(0, open(in.shape(0)), in.axis(0));
    if (in.wants_output(1)) in.give(1, {in.shape(0).at(0), in.shape(0).at(1), std::nullopt}, in.axis(0));
}

void image_of_columns_rows(rule_call& in) {
    require_first(in, 0);
    in.require_alike(1, "shapes");
    in.require_alike(2, "shapes");
    const std::size_t dimensions = in.integers(1).size();
    open_shape to(2 + dimensions);
    to[0] = in.shape(0).at(0);
    in.give(0, std::move(to), in.axis(0));
}

void pooling(rule_call& in) {
    require_first(in, 0);
    in.give(0, of_images(in, 0, in.shape(0).at(1)), in.axis(0));
}

void max_pooling(rule_call& in) {
    pooling(in);
    // Such a place counts all images.
    if (!in.wants_output(1)) return;
    if (in.axis(0)) throw cannot_follow{"gives places that count the images before"};
    in.give(1, of_images(in, 0, in.shape(0)[1]), {});
}

void global_pooling(rule_call& in) {
    require_first(in, 0);
    open_shape to = of_images(in, 0, in.shape(0).at(1));
    std::fill(to.begin() + 2, to.end(), amount(1));
    in.give(0, std::move(to), in.axis(0));
}

// --- other sizes ----------------------------------------------------------------------------------------------

// The axis keeps its elements: the operator leaves an axis alone whose scale is 1.
void resize(rule_call& in) {
    const amounts& from = in.shape(0);
    const auto rows = in.axis(0);
    const std::size_t of_scales = in.opset() < 11 ? 1 : 2;
    if (in.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
        throw cannot_follow{"crops to a region along each axis"};
    for (std::size_t i = 1; i < in.input_count(); ++i)
        if (in.has_rows(i)) throw cannot_follow{"takes scales or sizes that depend on the rows"};
    std::vector<std::int64_t> axes;
    if (const auto given = in.list("axes")) {
        axes = *given;
    } else {
        for (std::size_t d = 0; d < from.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
    }
    open_shape to = open(from);
    const bool has_sizes = in.has_input(3) && !(in.input(3).shape && in.shape(3).size() == 1 && in.shape(3)[0].is(0));
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t axis = in.axis_of(axes[i], from.size());
        if (rows != axis) {
            to[axis].reset();
            continue;
        }
        bool is_kept = false;
        if (has_sizes) {
            const amounts sizes = in.numbers(3);
            is_kept = i < sizes.size() && sizes[i] == from[axis] &&
                      in.text("keep_aspect_ratio_policy", "stretch") == "stretch";
        } else if (in.has_input(of_scales) && in.input(of_scales).known && in.input(of_scales).known.is_on_host() &&
                   in.input(of_scales).known.type() == io::dtype::f32) {
            const auto scales = in.input(of_scales).known.values<float>();
            is_kept = i < scales.size() && scales[i] == 1.f;
        } else if (const auto* const scales = in.what().find<std::vector<float>>("scales")) {
            is_kept = i < scales->size() && (*scales)[i] == 1.f;
        }
        if (!is_kept)
            throw cannot_follow{"gives another number of rows, or one that is not known before the network runs"};
    }
    // Lengths from sizes that are computed from the number of rows are none of other axes.
    if (has_sizes) {
        const amounts sizes = in.numbers(3);
        for (std::size_t i = 0; i < axes.size() && i < sizes.size(); ++i) {
            const std::size_t axis = in.axis_of(axes[i], from.size());
            if (rows == axis) continue;
            if (sizes[i].depends_on_rows())
                throw cannot_follow{"gives images whose size depends on the number of rows"};
            if (in.text("keep_aspect_ratio_policy", "stretch") == "stretch") to[axis] = sizes[i];
        }
    }
    in.give(0, std::move(to), rows);
}

void grid_sample(rule_call& in) {
    require_all_first(in, {0, 1});
    open_shape to = open(in.shape(1));
    if (to.size() < 3) throw cannot_follow{"has inputs that do not fit"};
    to.pop_back();
    to.insert(to.begin() + 1, in.shape(0).at(1));
    in.give(0, std::move(to), in.axis(0));
}

void affine_grid(rule_call& in) {
    require_first(in, 0);
    const amounts sizes = in.numbers(1);
    open_shape to;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
        if (d == 1) continue;
        if (d != 0 && sizes[d].depends_on_rows())
            throw cannot_follow{"gives images whose size depends on the number of rows"};
        to.emplace_back(sizes[d]);
    }
    to.emplace_back(amount(static_cast<std::int64_t>(sizes.size()) - 2));
    if (in.axis(0) && !(sizes.at(0) == in.shape(0).at(0))) throw cannot_follow{"gives another number of rows"};
    if (!in.axis(0) && sizes.at(0).depends_on_rows()) throw cannot_follow{"gives another number of rows"};
    in.give(0, std::move(to), in.axis(0));
}

}  // namespace

std::span<const rule_of_operator> image_rules() {
    static const std::vector<rule_of_operator> all{
        {.name = "Conv", .how = &convolution},
        {.name = "ConvInteger", .how = &convolution},
        {.name = "QLinearConv", .how = &quantized_convolution},
        {.name = "ConvTranspose", .how = &transposed_convolution},
        {.name = "DeformConv", .how = &deformed_convolution},
        {.name = "CausalConvWithState", .how = &causal_convolution_rows},
        {.name = "Col2Im", .how = &image_of_columns_rows},
        {.name = "MaxPool", .how = &max_pooling},
        {.name = "AveragePool", .how = &pooling},
        {.name = "LpPool", .how = &pooling},
        {.name = "GlobalMaxPool", .how = &global_pooling},
        {.name = "GlobalAveragePool", .how = &global_pooling},
        {.name = "GlobalLpPool", .how = &global_pooling},
        {.name = "Resize", .how = &resize},
        {.name = "Upsample", .how = &resize},
        {.name = "GridSample", .how = &grid_sample},
        {.name = "AffineGrid", .how = &affine_grid},
    };
    return all;
}

}  // namespace sluice::nn::rows
