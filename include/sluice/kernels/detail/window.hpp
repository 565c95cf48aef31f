// SPDX-License-Identifier: Apache-2.0
// Windows that slide over images: what convolution and pooling share.
//
// Images are f32 tensors [images, channels, height, width] (NCHW). Along each dimension a window of `window` pixels,
// `dilation` apart, moves by `stride` from pixel -padding on, as long as it ends within the image and its padding:
//
//     outputs = (size + 2 * padding - dilation * (window - 1) - 1) / stride + 1, rounded down
#pragma once

#include <compare>
#include <cstddef>

namespace sluice {

// In pixels, down and across.
struct size_2d {
    std::size_t height = 1;
    std::size_t width = 1;
    friend auto operator<=>(const size_2d&, const size_2d&) = default;
};

// The largest stride, padding, dilation and pooling window.
inline constexpr std::size_t largest_window_step = 65'535;

namespace detail {
// How often the window fits along one dimension; 0 when it does not. `window`, `stride` and `dilation` are not 0.
constexpr std::size_t window_outputs(std::size_t size, std::size_t window, std::size_t stride, std::size_t padding,
                                     std::size_t dilation) noexcept {
    const std::size_t padded = size + 2 * padding, reach = dilation * (window - 1) + 1;
    return padded < reach ? 0 : (padded - reach) / stride + 1;
}
}  // namespace detail

}  // namespace sluice
