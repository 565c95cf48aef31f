// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/image_conversion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace sluice::io {
namespace {

std::string text_of(image_size size) { return std::to_string(size.width) + "x" + std::to_string(size.height); }

// The weights of ITU-R 601 in 1/65536. Their sum is 65536.
std::uint16_t grey_of(const std::array<std::uint16_t, 3>& colour) {
    const std::uint64_t sum =
        std::uint64_t{19595} * colour[0] + std::uint64_t{38470} * colour[1] + std::uint64_t{7471} * colour[2] + 0x8000;
    return static_cast<std::uint16_t>(sum >> 16);
}

// To the nearest whole number, and to the even one of two that are as near.
std::size_t half_of(std::size_t difference) {
    return difference / 2 + (difference % 2 == 1 && difference / 2 % 2 == 1 ? 1 : 0);
}

// One number for each channel.
std::vector<double> for_each_channel(const std::vector<double>& given, std::size_t channels, double otherwise,
                                     const char* what) {
    if (given.empty()) return std::vector<double>(channels, otherwise);
    if (given.size() == 1) return std::vector<double>(channels, given.front());
    if (given.size() == channels) return given;
    throw error(errc::invalid_argument, std::string(what) + " has " + std::to_string(given.size()) +
                                            " numbers; the picture has " + std::to_string(channels) + " channels");
}

}  // namespace

image convert(const image& from, image_format format) {
    if (from.format == format) return from;
    const std::size_t channels = channels_of(format), given = channels_of(from.format);
    const bool has_colours = given >= 3, wants_colours = channels >= 3;
    image made{.width = from.width, .height = from.height, .format = format, .largest = from.largest, .numbers = {}};
    made.numbers.reserve(from.width * from.height * channels);
    for (std::size_t at = 0; at < from.numbers.size(); at += given) {
        const std::uint16_t* const pixel = &from.numbers[at];
        const std::array<std::uint16_t, 3> colour{pixel[0], pixel[has_colours ? 1 : 0], pixel[has_colours ? 2 : 0]};
        if (wants_colours) {
            made.numbers.insert(made.numbers.end(), colour.begin(), colour.end());
        } else {
            made.numbers.push_back(has_colours ? grey_of(colour) : colour[0]);
        }
        if (has_alpha(format)) made.numbers.push_back(has_alpha(from.format) ? pixel[given - 1] : from.largest);
    }
    return made;
}

image_size size_for_shorter_side(const image& of, std::size_t side) {
    const bool is_wide = of.width > of.height;
    const std::size_t shorter = is_wide ? of.height : of.width, longer = is_wide ? of.width : of.height;
    const std::size_t length = side * longer / shorter;
    return is_wide ? image_size{length, side} : image_size{side, length};
}

image crop(const image& from, image_size size) {
    if (size.width == 0 || size.height == 0 || size.width > from.width || size.height > from.height) {
        throw error(errc::invalid_argument, "a part of " + text_of(size) + " cannot be cut out of a picture of " +
                                                text_of({from.width, from.height}));
    }
    const std::size_t channels = channels_of(from.format);
    const std::size_t left = half_of(from.width - size.width), top = half_of(from.height - size.height);
    image made{
        .width = size.width, .height = size.height, .format = from.format, .largest = from.largest, .numbers = {}};
    made.numbers.reserve(size.width * size.height * channels);
    for (std::size_t y = 0; y < size.height; ++y) {
        const auto row = from.numbers.begin() + static_cast<std::ptrdiff_t>(((top + y) * from.width + left) * channels);
        made.numbers.insert(made.numbers.end(), row, row + static_cast<std::ptrdiff_t>(size.width * channels));
    }
    return made;
}

void write_normalized(const image& from, image_layout layout, const image_normalization& by, std::span<float> target) {
    const std::size_t channels = channels_of(from.format), pixels = from.width * from.height;
    if (target.size() != pixels * channels) {
        throw error(errc::shape_mismatch, std::to_string(target.size()) + " floats are not the " +
                                              std::to_string(pixels * channels) + " numbers of a picture");
    }
    const double scale = by.scale.value_or(1.0 / from.largest);
    const std::vector<double> mean = for_each_channel(by.mean, channels, 0, "mean");
    const std::vector<double> deviation = for_each_channel(by.std, channels, 1, "std");
    if (std::ranges::find(deviation, 0.0) != deviation.end()) throw error(errc::invalid_argument, "std has a zero");
    for (std::size_t channel = 0; channel < channels; ++channel) {
        // Rounded where torchvision rounds: it has floats from the first step on.
        const auto less = static_cast<float>(mean[channel]), divisor = static_cast<float>(deviation[channel]);
        const bool is_planar = layout == image_layout::nchw;
        float* to = target.data() + (is_planar ? channel * pixels : channel);
        for (std::size_t i = 0; i < pixels; ++i) {
            const auto number = static_cast<float>(from.numbers[i * channels + channel] * scale);
            *to = (number - less) / divisor;
            if (i + 1 < pixels) to += is_planar ? 1 : channels;
        }
    }
}

}  // namespace sluice::io
