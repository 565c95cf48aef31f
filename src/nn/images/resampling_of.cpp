// SPDX-License-Identifier: Apache-2.0
#include "nn/images/resampling_of.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

using kernels::resample_by;

std::optional<resample_by> manner_of(const step& of) {
    const std::string_view mode = text(of, "mode", "nearest"), to = text(of, "nearest_mode", "round_prefer_floor");
    if (mode == "linear") return resample_by::linear;
    if (mode != "nearest") return {};
    if (to == "round_prefer_floor") return resample_by::nearest_half_down;
    if (to == "round_prefer_ceil") return resample_by::nearest_half_up;
    if (to == "floor") return resample_by::nearest_down;
    return to == "ceil" ? std::optional(resample_by::nearest_up) : std::nullopt;
}

std::string_view place_of(const step& of) { return text(of, "coordinate_transformation_mode", "half_pixel"); }

const any_tensor* host_constant(const prepared_graph& in, const step& of, std::size_t input, io::dtype type) {
    if (input >= of.inputs.size() || of.inputs[input] == no_slot) return nullptr;
    const auto found = in.constants.find(of.inputs[input]);
    if (found == in.constants.end() || !found->second.is_on_host() || found->second.type() != type ||
        found->second.elements() == 0)
        return nullptr;
    return &found->second;
}

// A position x is x * factor / divisor on the input's axis.
kernels::resampled_axis axis_of(std::string_view place, std::size_t from, std::size_t to, double factor, double divisor,
                                double width) {
    if (from == to && factor == divisor) return {};  // kept
    if (place == "asymmetric") return {.factor = factor, .divisor = divisor};
    if (place == "align_corners") {
        if (width == 1) return {.factor = 0};
        return {.factor = static_cast<double>(from) - 1, .divisor = width - 1};
    }
    if (place == "pytorch_half_pixel" && to == 1) return {.factor = 0};
    return {.shift = 0.5, .factor = factor, .divisor = divisor, .back = 0.5};
}

}  // namespace

bool can_be_resampled(const prepared_graph& in, const step& of) {
    if (!is(of, "Resize") || of.opset < 11 || !manner_of(of)) return false;
    const std::string_view place = place_of(of);
    if (place != "half_pixel" && place != "pytorch_half_pixel" && place != "asymmetric" && place != "align_corners")
        return false;
    if (integer(of, "antialias", 0) != 0 || integer(of, "exclude_outside", 0) != 0) return false;
    if (of.from->find<std::vector<std::int64_t>>("axes") != nullptr ||
        text(of, "keep_aspect_ratio_policy", "stretch") != "stretch")
        return false;
    const any_tensor *const scales = host_constant(in, of, 2, io::dtype::f32), *const sizes = host_constant(
                                                                                   in, of, 3, io::dtype::i64);
    if ((scales == nullptr) == (sizes == nullptr)) return false;
    if (sizes != nullptr) return sizes->elements() == 4 || sizes->elements() == 3;  // (the layout compares channels)
    const std::span<const float> given = scales->values<float>();
    return (given.size() == 4 || given.size() == 3) && given[0] == 1 && given[1] == 1;
}

kernels::image_resampling resampling_of(const prepared_graph& in, const step& of, const kernels::image_size& from,
                                        const kernels::image_size& to) {
    const any_tensor* const scales = host_constant(in, of, 2, io::dtype::f32);
    // `back`: from the last axis.
    const auto axis = [&](std::size_t back, std::size_t length, std::size_t made) {
        double factor = static_cast<double>(length), divisor = static_cast<double>(made), width = divisor;
        if (scales != nullptr) {
            const std::span<const float> given = scales->values<float>();
            // (Images of one dimension have no axis of rows.)
            factor = 1;
            divisor = back + 2 < given.size() ? static_cast<double>(given[given.size() - 1 - back]) : 1.0;
            width = divisor * static_cast<double>(length);
        }
        return axis_of(place_of(of), length, made, factor, divisor, width);
    };
    return {.by = *manner_of(of), .rows = axis(1, from.height, to.height), .columns = axis(0, from.width, to.width)};
}

}  // namespace sluice::nn::detail
