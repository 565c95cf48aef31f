// SPDX-License-Identifier: Apache-2.0
// What convolution and pooling are compared with: plain loops in double precision, over coordinates with a sign.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "kernels/reference.hpp"
#include "sluice/kernels/convolution.hpp"
#include "sluice/kernels/pooling.hpp"

namespace sluice::conformance {

// The pixel [image, channel, y, x]; nothing in the padding.
inline std::optional<double> pixel(const floats& images, const shape& of, std::size_t image, std::size_t channel,
                                   std::ptrdiff_t y, std::ptrdiff_t x) {
    const auto height = static_cast<std::ptrdiff_t>(of[2]), width = static_cast<std::ptrdiff_t>(of[3]);
    if (y < 0 || x < 0 || y >= height || x >= width) return std::nullopt;
    return images[((image * of[1] + channel) * of[2] + static_cast<std::size_t>(y)) * of[3] +
                  static_cast<std::size_t>(x)];
}

// Where pixel `down`, `across` of the window lies that makes the output at `y`, `x`.
struct signed_place {
    std::ptrdiff_t y, x;
};
inline signed_place place_in_image(std::size_t y, std::size_t x, std::size_t down, std::size_t across,
                                   const size_2d& stride, const size_2d& padding, const size_2d& dilation) {
    return {static_cast<std::ptrdiff_t>(y * stride.height + down * dilation.height) -
                static_cast<std::ptrdiff_t>(padding.height),
            static_cast<std::ptrdiff_t>(x * stride.width + across * dilation.width) -
                static_cast<std::ptrdiff_t>(padding.width)};
}

// Calls at(index, image, channel, y, x) for each element of a result.
template <typename Function>
void for_each_output(const shape& out, Function&& at) {
    std::size_t i = 0;
    for (std::size_t image = 0; image < out[0]; ++image) {
        for (std::size_t channel = 0; channel < out[1]; ++channel) {
            for (std::size_t y = 0; y < out[2]; ++y) {
                for (std::size_t x = 0; x < out[3]; ++x) at(i++, image, channel, y, x);
            }
        }
    }
}

// Without the activation; `bias` may be empty.
inline doubles convolution_reference(const floats& x, const shape& x_shape, const floats& filter,
                                     const shape& filter_shape, const floats& bias, const shape& out,
                                     const convolution_options& options) {
    doubles made(out.size());
    for_each_output(out, [&](std::size_t i, std::size_t image, std::size_t k, std::size_t y, std::size_t at_x) {
        const std::size_t channels = filter_shape[1], group = k / (filter_shape[0] / options.groups);
        double sum = bias.empty() ? 0 : bias[k];
        for (std::size_t c = 0; c < channels; ++c) {
            for (std::size_t r = 0; r < filter_shape[2]; ++r) {
                for (std::size_t s = 0; s < filter_shape[3]; ++s) {
                    const auto at = place_in_image(y, at_x, r, s, options.stride, options.padding, options.dilation);
                    const auto value = pixel(x, x_shape, image, group * channels + c, at.y, at.x);
                    const double weight = filter[((k * channels + c) * filter_shape[2] + r) * filter_shape[3] + s];
                    if (value) sum += *value * weight;
                }
            }
        }
        made[i] = sum;
    });
    return made;
}

// The larger of two; NaN if either is.
inline double max_or_nan(double a, double b) { return a > b || std::isnan(a) ? a : b; }

inline doubles pooling_reference(const floats& x, const shape& x_shape, const shape& out,
                                 const pooling_options& options, bool is_max) {
    doubles made(out.size());
    const size_2d stride = options.stride.value_or(options.window);
    for_each_output(out, [&](std::size_t i, std::size_t image, std::size_t channel, std::size_t y, std::size_t at_x) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        std::size_t inside = 0;
        for (std::size_t r = 0; r < options.window.height; ++r) {
            for (std::size_t s = 0; s < options.window.width; ++s) {
                const auto at = place_in_image(y, at_x, r, s, stride, options.padding, {1, 1});
                const auto value = pixel(x, x_shape, image, channel, at.y, at.x);
                if (!value) continue;
                largest = max_or_nan(largest, *value);
                sum += *value;
                ++inside;
            }
        }
        const std::size_t counted = options.counts_padding ? options.window.height * options.window.width : inside;
        made[i] = is_max ? largest : sum / static_cast<double>(counted);
    });
    return made;
}

}  // namespace sluice::conformance
