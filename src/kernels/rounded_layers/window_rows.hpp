// SPDX-License-Identifier: Apache-2.0
// The windows of a convolution as rows of a product. Images are brought into channels-last order first, with their
// padding around them: then a window is a few pieces of memory. The elements of a window are in the order height,
// width, channel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/convolution/convolution_dispatch.hpp"

namespace sluice::kernels {

// [height][width][channels of one group], of an image with its padding.
struct window_image {
    std::size_t height, width, channels, element_bytes;

    std::size_t pixel_bytes() const { return channels * element_bytes; }
    std::size_t bytes() const { return (height * width * pixel_bytes() + 63) / 64 * 64; }
};

inline window_image window_image_of(const convolution_form& form, std::size_t element_bytes) {
    const auto length = [](std::size_t input, std::size_t before, std::size_t windows, std::size_t stride,
                           std::size_t window, std::size_t dilation) {
        return std::max(input + before, (windows - 1) * stride + (window - 1) * dilation + 1);
    };
    return {length(form.height, form.padding.height, form.out_height, form.stride.height, form.filter_height,
                   form.dilation.height),
            length(form.width, form.padding.width, form.out_width, form.stride.width, form.filter_width,
                   form.dilation.width),
            form.channels / form.groups, element_bytes};
}

// From the planes of a group's channels. `to` has bytes() of them, of which each is `zero` in the padding.
template <typename Element>
void bring_channels_last(const convolution_form& form, const window_image& as, const Element* planes,
                         unsigned char zero, std::byte* to) {
    std::memset(to, zero, as.bytes());
    auto* const first =
        reinterpret_cast<Element*>(to) + (form.padding.height * as.width + form.padding.width) * as.channels;
    for (std::size_t y = 0; y < form.height; ++y) {
        for (std::size_t c = 0; c < as.channels; ++c) {
            const Element* const from = planes + (c * form.height + y) * form.width;
            Element* const line = first + y * as.width * as.channels + c;
            for (std::size_t x = 0; x < form.width; ++x) line[x * as.channels] = from[x];
        }
    }
}

inline void copy_window(const convolution_form& form, const window_image& image, const std::byte* from,
                        std::size_t position, std::byte* to) {
    const std::size_t pixel = image.pixel_bytes(), line = image.width * pixel;
    from +=
        position / form.out_width * form.stride.height * line + position % form.out_width * form.stride.width * pixel;
    for (std::size_t r = 0; r < form.filter_height; ++r, from += form.dilation.height * line) {
        if (form.dilation.width == 1) {
            std::memcpy(to, from, form.filter_width * pixel);
            to += form.filter_width * pixel;
            continue;
        }
        for (std::size_t s = 0; s < form.filter_width; ++s, to += pixel)
            std::memcpy(to, from + s * form.dilation.width * pixel, pixel);
    }
}

// Weights [outputs][channels][window] in the order of windows: [outputs][window][channels].
template <typename T>
std::vector<T> weights_in_window_order(const std::vector<T>& weights, std::size_t channels, std::size_t window) {
    std::vector<T> made(weights.size());
    const std::size_t size = channels * window;
    for (std::size_t filter = 0, i = 0; i < weights.size(); filter += size)
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t w = 0; w < window; ++w, ++i) made[filter + w * channels + c] = weights[i];
    return made;
}

}  // namespace sluice::kernels
