// SPDX-License-Identifier: Apache-2.0
// The kernels of Resize and Upsample. On a CPU they compute where the elements come from once for many rows
// (resampling_on_cpu.cpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/operators/in_word.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

constexpr std::size_t resample_rank = 8;

enum class resample_mode : std::uint8_t { nearest, linear, cubic };
enum class resample_rounding : std::uint8_t { half_down, half_up, down, up };
enum class resample_place : std::uint8_t {
    asymmetric,
    tf_half_pixel_for_nn,
    half_pixel,
    half_pixel_symmetric,
    pytorch_half_pixel,
    align_corners,
    crop_and_resize
};

// Where the elements of an output's axis are on the input's axis.
struct resample_axis {
    std::size_t from = 1, to = 1;  // lengths
    double scale = 1;              // x on the output's axis is x * factor / divisor on the input's: that is exact where
    double factor = 1, divisor = 1;  // both are lengths
    double width = 1;                // scale times the input's length: the output's length before it was rounded
    double begin = 0, extent = 1;    // the region of crop_and_resize, in shares of the distance to the last element
    in_word<resample_place> place = resample_place::half_pixel;
    in_word<bool> is_kept = true;  // the output's elements are the input's

    SLUICE_KERNEL double along(double x) const { return x * factor / divisor; }
    SLUICE_KERNEL double position(std::size_t i) const {
        const double x = static_cast<double>(i), last = static_cast<double>(from) - 1;
        switch (place) {
            case resample_place::asymmetric: return along(x);
            case resample_place::tf_half_pixel_for_nn: return along(x + 0.5);
            case resample_place::half_pixel: return along(x + 0.5) - 0.5;
            case resample_place::half_pixel_symmetric: {
                const double offset = static_cast<double>(from) / 2 * (1 - static_cast<double>(to) / width);
                return offset + along(x + 0.5) - 0.5;
            }
            case resample_place::pytorch_half_pixel: return to == 1 ? 0 : along(x + 0.5) - 0.5;
            case resample_place::align_corners: return width == 1 ? 0 : x * last / (width - 1);
            case resample_place::crop_and_resize: {
                const double moved = width == 1 ? extent * last / 2 : x * extent * last / (width - 1);
                return static_cast<double>(static_cast<float>(begin * last)) + moved;
            }
        }
        return 0;
    }
    SLUICE_KERNEL bool is_outside(double at) const {
        return place == resample_place::crop_and_resize && !(at >= 0 && at <= static_cast<double>(from) - 1);
    }
    // NaN becomes 0.
    SLUICE_KERNEL std::size_t clamped(double at) const {
        const double last = static_cast<double>(from) - 1;
        return at > 0 ? static_cast<std::size_t>(at < last ? at : last) : 0;
    }
};

SLUICE_KERNEL inline double resample_round(resample_rounding how, double at) {
    switch (how) {
        case resample_rounding::half_down: return std::ceil(at - 0.5);
        case resample_rounding::half_up: return std::floor(at + 0.5);
        case resample_rounding::down: return std::floor(at);
        default: return std::ceil(at);
    }
}

template <typename Word>
struct nearest_kernel {
    const Word* from;
    Word* to;
    in_word<Word> outside;
    resample_axis axes[resample_rank];
    resample_rounding rounding[resample_rank];
    std::size_t rank;

    // From whole rows of the last axis that changes.
    static constexpr std::size_t numbers_of_part = 65'536;
    std::size_t host_unit() const;
    void on_host(std::size_t first, std::size_t last) const;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        std::size_t rest = i, at = 0, stride = 1;
        bool is_outside = false;
        for (std::size_t d = rank; d-- > 0;) {
            const resample_axis& axis = axes[d];
            std::size_t k = rest % axis.to;
            rest /= axis.to;
            if (!axis.is_kept) {
                const double position = axis.position(k);
                is_outside = is_outside || axis.is_outside(position);
                k = axis.clamped(resample_round(rounding[d], position));
            }
            at += k * stride;
            stride *= axis.from;
        }
        to[i] = is_outside ? static_cast<Word>(outside) : from[at];
    }
};

struct resample_filter {
    in_word<resample_mode> mode = resample_mode::linear;
    double a = -0.75;                 // of cubic
    double stretch = 1;               // below 1: the filter is wider by its reciprocal
    std::int64_t half = 1;            // elements on each side
    in_word<bool> is_scaled = false;  // the weights' sum is not 1
    in_word<bool> leaves_out_outside = false;

    template <typename Number>
    SLUICE_KERNEL Number weight(Number distance) const {
        const Number x = distance < 0 ? -distance : distance;
        if (mode == resample_mode::linear) return x < 1 ? 1 - x : 0;
        const Number c = static_cast<Number>(a);
        if (x <= 1) return ((c + 2) * x - (c + 3)) * x * x + 1;
        return x < 2 ? ((c * x - 5 * c) * x + 8 * c) * x - 4 * c : 0;
    }
};

template <typename Number>
struct interpolating_kernel {
    const Number* from;
    Number* to;
    resample_axis axis;
    resample_filter filter;
    std::size_t inner;  // elements between neighbours
    in_word<Number> outside;

    std::size_t host_unit() const { return inner; }
    void on_host(std::size_t first, std::size_t last) const;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        const std::size_t column = i % inner, k = i / inner % axis.to, row = i / inner / axis.to;
        const double position = axis.position(k);
        if (axis.is_outside(position)) {
            to[i] = outside;
            return;
        }
        // Between base and base + 1, or at base + 1.
        const double base = std::ceil(position) - 1;
        const Number part = static_cast<Number>(position - base);
        const Number* const line = from + row * axis.from * inner + column;
        Number sum = 0, weights = 0;
        for (std::int64_t offset = 1 - filter.half; offset <= filter.half; ++offset) {
            const double at = base + static_cast<double>(offset);
            if (filter.leaves_out_outside && !(at >= 0 && at < static_cast<double>(axis.from))) continue;
            const Number weight =
                filter.weight((static_cast<Number>(offset) - part) * static_cast<Number>(filter.stretch));
            weights += weight;
            sum += weight * line[axis.clamped(at) * inner];
        }
        to[i] = !filter.is_scaled ? sum : weights != 0 ? sum / weights : 0;
    }
};

}  // namespace sluice::nn::operators
