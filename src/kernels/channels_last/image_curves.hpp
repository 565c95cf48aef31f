// SPDX-License-Identifier: Apache-2.0
// The loop of image_loops.hpp over curves, for image_vectors.hpp. What is said there holds here.
#pragma once

#include <cstddef>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/elementwise/vector_math_loops.hpp"

namespace sluice::kernels {
namespace {

template <image_curve_kind Kind>
[[gnu::always_inline]] inline void curve_lane(const curved_row& in, const number_lane& x, number_lane& to) {
    const number_lane none = {}, one = none + 1.0f;
    number_lane made = none + in.curve.offset;
    if constexpr (Kind == image_curve_kind::sigmoid) {
        const number_lane scaled = x * in.curve.slope;
        sigmoid(scaled, made);
    } else if constexpr (Kind == image_curve_kind::tanh) {
        hyperbolic_tangent(x, made);
    } else if constexpr (Kind == image_curve_kind::gelu) {
        gelu_lane(x, made);
    } else if constexpr (Kind == image_curve_kind::leaky) {
        made = x < none ? x * in.curve.slope : x;
    } else if constexpr (Kind == image_curve_kind::same) {
        made = x;
    } else {
        add_product(made, in.curve.slope, x);
        made = made < none ? none : made;  // NaN stays
        made = made > one ? one : made;
    }
    if (in.curve.times_input) made *= x;
    if (in.curve.is_scaled) {
        number_lane scaled = none + in.curve.addend;
        add_product(scaled, in.curve.factor, made);
        made = scaled;
    }
    if (in.has_bounds) {
        const number_lane least = none + in.least, most = none + in.most;
        made = made < least ? least : made;
        made = made > most ? most : made;
    }
    to = made;
}

// In place.
template <image_curve_kind Kind>
void curve_run(const curved_row& in, float* x, std::size_t count) {
    std::size_t i = 0;
    for (; i + lane_numbers <= count; i += lane_numbers) {
        const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i);
        number_lane made;
        curve_lane<Kind>(in, each, made);
        *reinterpret_cast<loose_number_lane*>(x + i) = made;
    }
    if (i == count) return;
    number_lane some = {};
    for (std::size_t k = 0; k < count - i; ++k) some[k] = x[i + k];
    number_lane made;
    curve_lane<Kind>(in, some, made);
    for (std::size_t k = 0; k < count - i; ++k) x[i + k] = made[k];
}

template <image_curve_kind Kind>
void curve_pixels(const curved_row& in) {
    if (in.step == in.channels) return curve_run<Kind>(in, in.x, in.pixels * in.channels);
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel) curve_run<Kind>(in, in.x + pixel * in.step, in.channels);
}

void curve_row(const curved_row& in) {
    switch (in.curve.kind) {
        case image_curve_kind::none: return;
        case image_curve_kind::sigmoid: return curve_pixels<image_curve_kind::sigmoid>(in);
        case image_curve_kind::hard_sigmoid: return curve_pixels<image_curve_kind::hard_sigmoid>(in);
        case image_curve_kind::tanh: return curve_pixels<image_curve_kind::tanh>(in);
        case image_curve_kind::leaky: return curve_pixels<image_curve_kind::leaky>(in);
        case image_curve_kind::gelu: return curve_pixels<image_curve_kind::gelu>(in);
        case image_curve_kind::same: return curve_pixels<image_curve_kind::same>(in);
    }
}

}  // namespace
}  // namespace sluice::kernels
