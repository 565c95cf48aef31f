// SPDX-License-Identifier: Apache-2.0
// Windows that slide over images of one to three dimensions: what convolutions and poolings share.
//
// An image is [images, channels, lengths...]. Along each dimension, window o begins at element o * stride - before, and
// its elements are `dilation` apart. Kernels see three dimensions; the first are 1 where there are fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nn/operators/node_call.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

struct window_grid {
    std::size_t input[3] = {1, 1, 1};
    std::size_t window[3] = {1, 1, 1};
    std::size_t output[3] = {1, 1, 1};
    std::size_t stride[3] = {1, 1, 1};
    std::size_t dilation[3] = {1, 1, 1};
    std::size_t before[3] = {0, 0, 0};  // padding
    std::size_t after[3] = {0, 0, 0};

    SLUICE_KERNEL std::size_t input_size() const { return input[0] * input[1] * input[2]; }
    SLUICE_KERNEL std::size_t window_size() const { return window[0] * window[1] * window[2]; }
    SLUICE_KERNEL std::size_t output_size() const { return output[0] * output[1] * output[2]; }

    // The elements of window o that are within `size` elements from `skipped` on, along one dimension: [first, last).
    struct range {
        std::size_t first, last;
    };
    SLUICE_KERNEL range within(std::size_t o, std::size_t d, std::size_t skipped, std::size_t size) const {
        const std::size_t start = o * stride[d], step = dilation[d], end = skipped + size;
        const std::size_t first = start >= skipped ? 0 : (skipped - start + step - 1) / step;
        const std::size_t last = start >= end ? 0 : (end - start + step - 1) / step;
        return {first, last < window[d] ? last : window[d]};
    }
    SLUICE_KERNEL range in_image(std::size_t o, std::size_t d) const { return within(o, d, before[d], input[d]); }
    // The windows whose element k is in the image: [first, last).
    SLUICE_KERNEL range windows_with(std::size_t k, std::size_t d) const {
        const std::size_t at = k * dilation[d], end = before[d] + input[d];
        const std::size_t first = at >= before[d] ? 0 : (before[d] - at + stride[d] - 1) / stride[d];
        const std::size_t last = at >= end ? 0 : (end - at + stride[d] - 1) / stride[d];
        return {first, last < output[d] ? last : output[d]};
    }
    // The element of the image that is element k of window o.
    SLUICE_KERNEL std::size_t place(std::size_t o, std::size_t k, std::size_t d) const {
        return o * stride[d] + k * dilation[d] - before[d];
    }
};

// A list of numbers, one for each dimension of the image, all at least `least`; where the attribute is not there, all
// are `otherwise`.
lengths window_numbers(const node_call& in, std::string_view attribute, std::size_t count, std::size_t otherwise,
                       std::size_t least);

// How many dimensions an image has in addition to images and channels: one to three. Refuses others.
std::size_t window_rank(const node_call& in, const any_tensor& image);

// The windows of a node: from the attributes strides, dilations, pads, auto_pad and, if asked, ceil_mode. Gives all but
// the images and channels of the output. Refuses a window that does not fit.
window_grid windows_of(const node_call& in, std::span<const std::size_t> image, std::span<const std::size_t> window,
                       bool may_round_up = false);

// Input and output of the grid, strides and dilations, without padding and output.
window_grid unpadded_grid(const node_call& in, std::span<const std::size_t> image, std::span<const std::size_t> window);

// [images, channels, output...] for an image of this rank.
lengths window_output_shape(const window_grid& grid, std::size_t images, std::size_t channels, std::size_t rank);

enum class auto_padding : unsigned char { not_set, same_upper, same_lower, valid };
auto_padding auto_padding_of(const node_call& in);

}  // namespace sluice::nn::operators
