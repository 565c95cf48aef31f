// SPDX-License-Identifier: Apache-2.0
// What the loops of image programs do, each for one row of pixels. They are compiled for each kind of vector unit.
#pragma once

#include <cstddef>

#include "kernels/channels_last/image_program.hpp"

namespace sluice::kernels {

inline constexpr std::size_t image_lane = 16;       // floats of a vector
inline constexpr std::size_t most_panel_lanes = 3;  // vectors of a panel of filters

// The vectors of the next panel, where that many are left.
constexpr std::size_t panel_lanes(std::size_t left) noexcept { return left == 3 || left < 2 ? left : 2; }
constexpr std::size_t image_lanes(std::size_t channels) noexcept { return (channels + image_lane - 1) / image_lane; }

// What a step does with each element that it writes.
struct element_end {
    const float* addend;  // or null
    std::size_t addend_step;
    bool has_bounds;
    float least, most;
};

// The elements of a window are `rows` times `columns` runs of `length` floats.
struct window_runs {
    std::size_t rows, row_step, columns, column_step, length;
};

// Pixels of one row, by one panel of filters: [runs' elements][lanes * 16] weights. Or, with runs of one float, each
// channel by a filter of its own: then the panel has all filters.
struct convolved_row {
    const float* x;
    std::size_t pixels, x_step;
    window_runs runs;
    const float* weights;
    const float* bias;
    float* out;
    std::size_t out_step, filters;
    element_end end;
};

// Pixels of one row, from `first` on. A pixel's window begins at column `at * stride - before` of the rows from x on.
struct pooled_row {
    const float* x;  // the first row of the window that exists, its first pixel
    std::size_t x_pixel, width;
    std::size_t rows;  // of the window, that exist
    std::size_t row_step;
    std::size_t columns, stride, dilation, before, after;
    std::size_t counted_rows;  // average: rows that count
    bool counts_padding;
    float* out;  // of the first one
    std::size_t first, pixels, out_step, channels;
    element_end end;
};

// Pixels of one row: out = x * factors + addends, or x.
struct scaled_row {
    const float* x;
    std::size_t pixels, x_step;
    const float* factors;  // or null: [lanes * 16] factors, as many addends
    float* out;
    std::size_t out_step, channels;
    element_end end;
};

// Pixels of one row: out = x + y or x * y. `y_step` is 0 where all pixels meet the same one.
struct combined_row {
    const float *x, *y;
    bool multiplies;
    bool y_is_channel;  // its first number meets all channels
    std::size_t pixels, x_step, y_step;
    float* out;
    std::size_t out_step, channels;
    element_end end;  // its addend does not count
};

// Some channels of the pixels of one row, which become their curve, in the bounds.
struct curved_row {
    float* x;
    std::size_t pixels, step, channels;
    image_curve curve;
    bool has_bounds;
    float least, most;
};

// Pixels of one row: channel g * n + k, of groups of n, becomes k * groups + g.
struct shuffled_row {
    const float* x;
    std::size_t pixels, x_step;
    float* out;
    std::size_t out_step, channels, groups;
};

// Planes that become pixels, or pixels that become planes: rows of `columns` floats.
struct transposed_rows {
    const float* from;
    std::size_t rows, columns, from_step;
    float* to;
    std::size_t to_step;
};

struct image_loops {
    void (*convolve[most_panel_lanes])(const convolved_row&);  // by the panel's vectors
    void (*convolve_channels)(const convolved_row&);
    void (*maximum)(const pooled_row&);
    void (*average)(const pooled_row&);
    void (*scale)(const scaled_row&);
    void (*combine)(const combined_row&);
    void (*curve)(const curved_row&);
    void (*shuffle)(const shuffled_row&);
    // Three planes become pixels of three channels, one after the other.
    void (*join_three)(const float* from, std::size_t plane, std::size_t pixels, float* to);
    void (*transpose)(const transposed_rows&);
};
extern const image_loops image_loops_baseline, image_loops_avx2, image_loops_avx512;

}  // namespace sluice::kernels
