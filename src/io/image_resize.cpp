// SPDX-License-Identifier: Apache-2.0
// Bilinear resizing in two passes, along rows and then along columns. Each new number is a weighted mean of old ones,
// whose weights fall linearly with the distance from its centre. Where the picture becomes smaller, the slope is as
// much flatter, so that each old number has a part in the result.
//
// Weights are multiples of 2^-22, and each pass rounds to whole numbers: so does Pillow (up to version 12 in this order
// for all sizes), and the results are equal.
#include <algorithm>
#include <cmath>
#include <string>

#include "sluice/io/image_conversion.hpp"

namespace sluice::io {
namespace {

constexpr int weight_bits = 22;

// Which old numbers make a new one.
struct resize_window {
    std::size_t first = 0;
    std::vector<std::int32_t> weights;
};

resize_window window_of(std::size_t at, std::size_t from, double scale) {
    const double reach = std::max(scale, 1.0);  // to both sides
    const double center = (static_cast<double>(at) + 0.5) * scale;
    const double begin = std::max(center - reach + 0.5, 0.0);
    const double end = std::min(center + reach + 0.5, static_cast<double>(from));
    resize_window made{.first = static_cast<std::size_t>(begin), .weights = {}};
    std::vector<double> weights;
    double sum = 0;
    for (std::size_t i = made.first; i < static_cast<std::size_t>(end); ++i) {
        const double distance = std::abs((static_cast<double>(i) - center + 0.5) * (1.0 / reach));
        weights.push_back(std::max(1.0 - distance, 0.0));
        sum += weights.back();
    }
    for (const double each : weights) {
        const double weight = each * (1.0 / sum) * (1 << weight_bits);
        made.weights.push_back(static_cast<std::int32_t>(std::lround(weight)));
    }
    return made;
}

std::vector<resize_window> windows_of(std::size_t from, std::size_t to) {
    std::vector<resize_window> made;
    made.reserve(to);
    for (std::size_t i = 0; i < to; ++i) {
        made.push_back(window_of(i, from, static_cast<double>(from) / static_cast<double>(to)));
    }
    return made;
}

// The weighted mean of numbers that are `stride` apart.
std::uint16_t mean_of(const std::uint16_t* numbers, std::size_t stride, const resize_window& window,
                      std::uint16_t largest) {
    std::int64_t sum = std::int64_t{1} << (weight_bits - 1);  // to round
    for (std::size_t i = 0; i < window.weights.size(); ++i)
        sum += std::int64_t{window.weights[i]} * numbers[i * stride];
    return static_cast<std::uint16_t>(std::clamp<std::int64_t>(sum >> weight_bits, 0, largest));
}

image resize_rows(const image& from, std::size_t width) {
    const std::size_t channels = channels_of(from.format);
    const std::vector<resize_window> windows = windows_of(from.width, width);
    image made{.width = width, .height = from.height, .format = from.format, .largest = from.largest, .numbers = {}};
    made.numbers.reserve(width * from.height * channels);
    for (std::size_t y = 0; y < from.height; ++y) {
        const std::uint16_t* const row = &from.numbers[y * from.width * channels];
        for (const resize_window& window : windows) {
            for (std::size_t channel = 0; channel < channels; ++channel) {
                made.numbers.push_back(
                    mean_of(row + window.first * channels + channel, channels, window, from.largest));
            }
        }
    }
    return made;
}

image resize_columns(const image& from, std::size_t height) {
    const std::size_t row_numbers = from.width * channels_of(from.format);
    image made{.width = from.width, .height = height, .format = from.format, .largest = from.largest, .numbers = {}};
    made.numbers.reserve(row_numbers * height);
    for (const resize_window& window : windows_of(from.height, height)) {
        const std::uint16_t* const row = &from.numbers[window.first * row_numbers];
        for (std::size_t i = 0; i < row_numbers; ++i) {
            made.numbers.push_back(mean_of(row + i, row_numbers, window, from.largest));
        }
    }
    return made;
}

}  // namespace

image resize(const image& from, image_size size) {
    const auto refuse = [](const std::string& why) { throw error(errc::invalid_argument, why); };
    if (has_alpha(from.format)) {
        refuse("a picture with alpha (" + std::string(to_string(from.format)) +
               ") is not resized: convert it to grey or RGB");
    }
    // Between the passes it has the new width and the old height.
    const std::size_t tallest = std::max(from.height, size.height);
    const image_limits limits;
    if (size.width == 0 || size.height == 0 || size.width > limits.side || size.height > limits.side ||
        size.width > limits.pixels / tallest) {
        refuse("a picture of " + std::to_string(from.width) + "x" + std::to_string(from.height) +
               " cannot be resized to " + std::to_string(size.width) + "x" + std::to_string(size.height));
    }
    if (size.width == from.width) return size.height == from.height ? from : resize_columns(from, size.height);
    image made = resize_rows(from, size.width);
    return size.height == from.height ? made : resize_columns(made, size.height);
}

}  // namespace sluice::io
