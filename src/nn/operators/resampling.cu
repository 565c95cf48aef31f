// SPDX-License-Identifier: Apache-2.0
// Operators that give a tensor other lengths: Resize and Upsample, one axis after the other.
#include "nn/operators/resampling.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "nn/operators/expression.hpp"
#include "nn/operators/launch_each.hpp"
#include "nn/operators/resampling_kernels.hpp"
#include "nn/operators/table.hpp"
#include "sluice/base/detail/is_nan.hpp"

namespace sluice::nn::operators {
namespace {

// To integers: rounded, halves to even; what does not fit becomes the nearest number that does.
template <typename Whole>
struct narrowing_kernel {
    const double* from;
    Whole* to;
    in_word<Whole> least, most;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const double value = std::rint(from[i]);
        if (sluice::detail::is_nan(value)) {
            to[i] = 0;
        } else if (value <= static_cast<double>(least)) {
            to[i] = least;
        } else {
            to[i] = value >= static_cast<double>(most) ? static_cast<Whole>(most) : static_cast<Whole>(value);
        }
    }
};

any_tensor resample_converted(node_call& in, const any_tensor& from, io::dtype type) {
    if (from.type() == type) return from;
    const any_tensor to = in.make(type, from.shape());
    if (from.type() == io::dtype::f64 && !is_float(type)) {
        with_type(type, [&]<typename T>() {
            if constexpr (std::is_integral_v<T>) {
                using limits = std::numeric_limits<T>;
                each(in, to.elements(),
                     narrowing_kernel<T>{in.read<double>(from), in.write<T>(to), limits::min(), limits::max()}, {&from},
                     {&to});
            }
        });
        return to;
    }
    expression e(in);
    e.give(to, e.input(from));
    e.run();
    return to;
}

// --- Resize ----------------------------------------------------------------------------------------------------

struct resample_settings {
    resample_mode mode = resample_mode::nearest;
    std::optional<resample_rounding> rounding;  // none: down for what becomes longer, else up
    double a = -0.75;
    double outside = 0;
    bool leaves_out_outside = false;
    bool is_smooth = false;
    std::vector<resample_axis> axes;

    resample_filter filter_of(const resample_axis& axis) const {
        resample_filter made{.mode = mode, .a = a, .leaves_out_outside = leaves_out_outside};
        if (is_smooth && axis.scale < 1) made.stretch = axis.scale;
        made.half = static_cast<std::int64_t>(std::ceil((mode == resample_mode::cubic ? 2 : 1) / made.stretch));
        made.is_scaled = is_smooth || leaves_out_outside;
        return made;
    }
};

template <typename Word>
void resample_nearest(node_call& in, const any_tensor& x, const resample_settings& how) {
    lengths shape;
    for (const auto& axis : how.axes) shape.push_back(axis.to);
    const any_tensor& y = in.make_output(0, x.type(), shape);
    nearest_kernel<Word> kernel{in.read<Word>(x), in.write<Word>(y), {}, {}, {}, how.axes.size()};
    with_type(x.type(), [&]<typename T>() {
        T outside{};
        if constexpr (std::is_integral_v<T>) {
            // The cast of a number that does not fit is undefined.
            const double least = static_cast<double>(std::numeric_limits<T>::min()),
                         most = static_cast<double>(std::numeric_limits<T>::max());
            if (how.outside >= most) {
                outside = std::numeric_limits<T>::max();
            } else if (how.outside > least) {
                outside = static_cast<T>(std::rint(how.outside));
            } else if (how.outside <= least) {
                outside = std::numeric_limits<T>::min();
            }
        } else {
            outside = T(static_cast<computed<T>>(how.outside));
        }
        std::uint64_t bits = 0;
        std::memcpy(&bits, &outside, sizeof(T));
        kernel.outside = static_cast<Word>(bits);
    });
    for (std::size_t d = 0; d < how.axes.size(); ++d) {
        kernel.axes[d] = how.axes[d];
        kernel.rounding[d] =
            how.rounding.value_or(how.axes[d].scale < 1 ? resample_rounding::up : resample_rounding::down);
    }
    each(in, y.elements(), kernel, {&x}, {&y});
}

template <typename Number>
void resample_smoothly(node_call& in, const any_tensor& x, const resample_settings& how) {
    constexpr io::dtype type = io::dtype_of<Number>;
    any_tensor at = resample_converted(in, x, type);
    const auto apply = [&](std::size_t d) {
        const resample_axis& axis = how.axes[d];
        if (axis.is_kept) return;
        lengths shape = at.shape();
        shape[d] = axis.to;
        const any_tensor next = in.make(type, shape);
        const std::size_t inner = product_of(std::span(shape).subspan(d + 1));
        each(in, next.elements(),
             interpolating_kernel<Number>{in.read<Number>(at), in.write<Number>(next), axis, how.filter_of(axis), inner,
                                          static_cast<Number>(how.outside)},
             {&at}, {&next});
        at = next;
    };
    // Axes that become shorter first: less is left for the others.
    for (const bool shorter : {true, false})
        for (std::size_t d = 0; d < how.axes.size(); ++d)
            if ((how.axes[d].to < how.axes[d].from) == shorter) apply(d);
    in.set_output(0, resample_converted(in, at, x.type()));
}

void resample(node_call& in, const resample_settings& how) {
    const any_tensor& x = in.input(0);
    if (how.axes.size() > resample_rank)
        in.refuse_unsupported("has " + std::to_string(how.axes.size()) + " dimensions; at most 8 are supported");
    lengths shape;
    for (const auto& axis : how.axes) shape.push_back(axis.to);
    if (std::ranges::find(shape, std::size_t{0}) != shape.end()) {
        in.make_output(0, x.type(), shape);
        return;
    }
    if (x.elements() == 0) in.refuse_shapes("makes elements of none: " + to_string(x));
    if (std::ranges::all_of(how.axes, [](const resample_axis& axis) { return axis.is_kept; }))
        return in.set_output(0, x);
    if (how.mode == resample_mode::nearest)
        return with_word(x.type(), [&]<typename Word>() { resample_nearest<Word>(in, x, how); });
    if (x.type() == io::dtype::boolean) in.refuse_type(x);
    if (is_float(x.type()) && x.type() != io::dtype::f64) return resample_smoothly<float>(in, x, how);
    resample_smoothly<double>(in, x, how);
}

// The elements of a floating point input that are known on the host.
std::vector<double> resample_numbers(const node_call& in, std::size_t i) {
    if (!in.has_input(i)) return {};
    const any_tensor& from = in.input(i);
    if (!from.is_on_host() && from.elements() != 0)
        in.refuse_unsupported("needs the numbers of input " + std::to_string(i) + " on the host, before it runs");
    std::vector<double> numbers(from.elements());
    with_float(in, from, [&]<typename T>() {
        for (std::size_t k = 0; k < numbers.size(); ++k) {
            T value;
            std::memcpy(&value, from.bytes().data() + k * sizeof(T), sizeof(T));
            numbers[k] = static_cast<double>(static_cast<computed<T>>(value));
        }
    });
    return numbers;
}

// The length is computed in float, as ONNX's shape inference does.
void set_scale(const node_call& in, resample_axis& axis, double scale, std::optional<std::size_t> from) {
    if (!(scale > 0) || !std::isfinite(scale)) in.refuse_number(from, "has the scale " + std::to_string(scale));
    const float length = std::floor(static_cast<float>(axis.from) * static_cast<float>(scale));
    if (!(length < 1e18f)) in.refuse_number(from, "has the scale " + std::to_string(scale));
    axis.scale = axis.divisor = scale;
    axis.to = static_cast<std::size_t>(length);
    axis.width = scale * static_cast<double>(axis.from);
}

std::vector<resample_axis> axes_of(const node_call& in, resample_place place) {
    std::vector<resample_axis> made;
    for (const std::size_t each : in.input(0).shape())
        made.push_back({.from = each, .to = each, .width = static_cast<double>(each), .place = place});
    return made;
}

void find_kept(std::vector<resample_axis>& axes) {
    for (auto& axis : axes) {
        axis.is_kept = axis.to == axis.from && std::abs(axis.scale - 1) < 1e-9 &&
                       (axis.place != resample_place::crop_and_resize || (axis.begin == 0 && axis.extent == 1));
    }
}

// Upsample, and Resize before version 11: an element is where the first one of its copies is.
void resize_by_scales(node_call& in, const std::vector<double>& scales, bool may_shrink) {
    resample_settings how;
    const std::string mode = in.text("mode", "nearest");
    if (mode != "nearest" && mode != "linear" && mode != "bilinear")
        in.refuse("has the mode '" + mode + "'; 'nearest' and 'linear' are possible");
    how.mode = mode == "nearest" ? resample_mode::nearest : resample_mode::linear;
    how.axes = axes_of(in, resample_place::asymmetric);
    if (scales.size() != how.axes.size())
        in.refuse("has " + std::to_string(scales.size()) + " scales for " + to_string(in.input(0)));
    for (std::size_t d = 0; d < scales.size(); ++d) {
        set_scale(in, how.axes[d], scales[d], in.from_input(1));
        if (!may_shrink && scales[d] < 1)
            in.refuse_number(in.from_input(1), "has a scale below 1, " + std::to_string(scales[d]));
    }
    find_kept(how.axes);
    resample(in, how);
}

void resize_10(node_call& in) { resize_by_scales(in, resample_numbers(in, 1), true); }
void upsample_9(node_call& in) { resize_by_scales(in, resample_numbers(in, 1), false); }
void upsample_7(node_call& in) {
    const std::vector<float> scales = in.real_list("scales");
    resize_by_scales(in, {scales.begin(), scales.end()}, false);
}

template <typename Value, std::size_t Count>
Value resample_choice(const node_call& in, std::string_view attribute, std::string_view otherwise,
                      const std::array<std::pair<std::string_view, Value>, Count>& choices) {
    const std::string given = in.text(attribute, otherwise);
    for (const auto& [name, value] : choices)
        if (given == name) return value;
    std::string possible;
    for (const auto& [name, value] : choices) possible += (possible.empty() ? "" : ", ") + std::string(name);
    in.refuse("has '" + given + "' as " + std::string(attribute) + "; possible are " + possible);
}

void set_sizes(const node_call& in, std::vector<resample_axis>& all_axes, const std::vector<std::size_t>& which,
               const integers& sizes) {
    const std::string policy = in.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
        in.refuse("has the keep_aspect_ratio_policy '" + policy + "'");
    std::optional<double> common;
    for (std::size_t i = 0; i < which.size(); ++i) {
        resample_axis& axis = all_axes[which[i]];
        if (sizes[i] < 0) in.refuse_value(3, "has the size " + std::to_string(sizes[i]));
        axis.to = static_cast<std::size_t>(sizes[i]);
        if (axis.from == 0) {
            if (axis.to != 0 || policy != "stretch") in.refuse_shapes("resizes a tensor without elements");
            continue;
        }
        axis.scale = static_cast<double>(sizes[i]) / static_cast<double>(axis.from);
        axis.width = axis.divisor = static_cast<double>(axis.to);
        axis.factor = static_cast<double>(axis.from);
        if (!common || (policy == "not_larger" ? axis.scale < *common : axis.scale > *common)) common = axis.scale;
    }
    if (policy == "stretch" || !common) return;
    for (const std::size_t d : which) {
        resample_axis& axis = all_axes[d];
        axis.scale = axis.divisor = *common;
        axis.factor = 1;
        axis.width = *common * static_cast<double>(axis.from);
        if (!(axis.width < 1e18)) in.refuse_shapes("has sizes that are too large");
        axis.to = static_cast<std::size_t>(axis.width + 0.5);
    }
}

void resize(node_call& in) {
    using enum resample_place;
    const any_tensor& x = in.input(0);
    resample_settings how;
    how.mode = resample_choice<resample_mode>(
        in, "mode", "nearest",
        std::to_array<std::pair<std::string_view, resample_mode>>(
            {{"nearest", resample_mode::nearest}, {"linear", resample_mode::linear}, {"cubic", resample_mode::cubic}}));
    how.rounding = resample_choice<resample_rounding>(in, "nearest_mode", "round_prefer_floor",
                                                      std::to_array<std::pair<std::string_view, resample_rounding>>(
                                                          {{"round_prefer_floor", resample_rounding::half_down},
                                                           {"round_prefer_ceil", resample_rounding::half_up},
                                                           {"floor", resample_rounding::down},
                                                           {"ceil", resample_rounding::up}}));
    const auto place = resample_choice<resample_place>(
        in, "coordinate_transformation_mode", "half_pixel",
        std::to_array<std::pair<std::string_view, resample_place>>({{"half_pixel", half_pixel},
                                                                    {"half_pixel_symmetric", half_pixel_symmetric},
                                                                    {"pytorch_half_pixel", pytorch_half_pixel},
                                                                    {"align_corners", align_corners},
                                                                    {"asymmetric", asymmetric},
                                                                    {"tf_half_pixel_for_nn", tf_half_pixel_for_nn},
                                                                    {"tf_crop_and_resize", crop_and_resize}}));
    how.a = in.real("cubic_coeff_a", -0.75f);
    how.outside = in.real("extrapolation_value", 0);
    how.is_smooth = in.integer("antialias", 0) != 0;
    how.leaves_out_outside = in.integer("exclude_outside", 0) != 0;
    if (how.mode == resample_mode::nearest && (how.is_smooth || how.leaves_out_outside))
        in.refuse_unsupported("has the mode 'nearest' with antialias or exclude_outside");
    how.axes = axes_of(in, place);

    std::vector<std::size_t> which;
    if (in.has("axes")) {
        for (const std::int64_t each : in.integer_list("axes")) which.push_back(in.axis(each, how.axes.size()));
        (void)in.axes(in.integer_list("axes"), how.axes.size());  // refuses one that is named twice
    } else {
        for (std::size_t d = 0; d < how.axes.size(); ++d) which.push_back(d);
    }
    const std::vector<double> scales = resample_numbers(in, 2);
    const integers sizes = in.host_integers(3);
    if (scales.empty() == sizes.empty() && !which.empty()) in.refuse("takes either scales or sizes");
    if (std::max(scales.size(), sizes.size()) != which.size())
        in.refuse("has " + std::to_string(std::max(scales.size(), sizes.size())) + " scales or sizes for " +
                  std::to_string(which.size()) + " axes of " + to_string(x));
    if (place == crop_and_resize) {
        const std::vector<double> region = resample_numbers(in, 1);
        if (region.size() != 2 * which.size())
            in.refuse("has a region of " + std::to_string(region.size()) + " numbers for " +
                      std::to_string(which.size()) + " axes");
        for (std::size_t i = 0; i < which.size(); ++i) {
            resample_axis& axis = how.axes[which[i]];
            axis.begin = region[i];
            // In float, as ONNX's reference: it decides between two elements that are as near.
            axis.extent = static_cast<float>(region[i + which.size()]) - static_cast<float>(region[i]);
            if (!std::isfinite(axis.begin) || !std::isfinite(axis.extent))
                in.refuse_value(1, "has a region without bounds");
            // ONNX's text multiplies the length by the region's, and its reference does not.
            if (!scales.empty() && (axis.begin != 0 || axis.extent != 1))
                in.refuse_unsupported("crops to a region by scales; sizes are supported");
        }
    }
    if (!sizes.empty()) {
        set_sizes(in, how.axes, which, sizes);
    } else {
        for (std::size_t i = 0; i < which.size(); ++i) set_scale(in, how.axes[which[i]], scales[i], 2);
    }
    find_kept(how.axes);
    resample(in, how);
}

}  // namespace

std::span<const definition> resampling() {
    static const std::vector<definition> list = {
        {.name = "Resize",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"mode"},
         .run = &resize_10,
         .host_inputs = input_bit(1),
         .since = 10,
         .until = 10},
        {.name = "Resize",
         .least_inputs = 1,
         .most_inputs = 4,
         .most_outputs = 1,
         .attributes = {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
                        "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"},
         .run = &resize,
         .host_inputs = input_bit(1) | input_bit(2) | input_bit(3),
         .since = 11},
        {.name = "Upsample",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"mode", "scales"},
         .run = &upsample_7,
         .since = 7,
         .until = 8},
        {.name = "Upsample",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"mode"},
         .run = &upsample_9,
         .host_inputs = input_bit(1),
         .since = 9,
         .until = 9},
        {.name = "CenterCropPad",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"axes"},
         .run = &center_crop_pad,
         .host_inputs = input_bit(1),
         .since = 18},
        {.name = "GridSample",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"align_corners", "mode", "padding_mode"},
         .run = &grid_sample,
         .since = 16},
        {.name = "AffineGrid",
         .least_inputs = 2,
         .most_inputs = 2,
         .most_outputs = 1,
         .attributes = {"align_corners"},
         .run = &affine_grid,
         .host_inputs = input_bit(1),
         .since = 20},
        {.name = "RoiAlign",
         .least_inputs = 3,
         .most_inputs = 3,
         .most_outputs = 1,
         .attributes = {"coordinate_transformation_mode", "mode", "output_height", "output_width", "sampling_ratio",
                        "spatial_scale"},
         .run = &roi_align,
         .since = 10},
    };
    return list;
}

}  // namespace sluice::nn::operators
