// SPDX-License-Identifier: Apache-2.0
// What the loops of integer programs do. They are compiled for each kind of vector unit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/integer_images/integer_program.hpp"

namespace sluice::kernels {

inline constexpr std::size_t most_tile_pixels = 12;

// Real numbers become bytes.
struct byte_end {
    byte_quantity quantity;
    float inverse;  // of the scale
    bool has_relu;
};

// Up to most_tile_pixels pixels, by all filters of a group.
struct convolved_tile {
    const std::uint8_t* const* x;  // the first byte of each pixel's window
    std::size_t pixels;
    std::size_t rows, row_step, columns, column_step;  // runs of a window; steps in bytes
    std::size_t fours, panel_bytes;                    // of a run; of a panel's weights
    const std::byte* weights;
    const float *factors, *biases;
    const std::int32_t* starts;
    std::uint8_t* const* out;  // the first filter's byte of each pixel
    std::size_t filters;
    byte_end end;
};

// Pixels of one row.
struct convolved_channels {
    const std::uint8_t* x;
    std::size_t pixels, x_step;
    std::size_t rows, row_step, columns, column_step;  // of the window
    const std::byte* weights;                          // [fours of taps][channels in whole 16][4]
    const float *factors, *biases;
    const std::int32_t* starts;
    std::uint8_t* out;
    std::size_t out_step, channels;
    byte_end end;
};

// Bytes of two values that meet one by one: the sum or the product of their numbers.
struct combined_bytes {
    const std::uint8_t *x, *y;
    byte_quantity of_x, of_y;
    bool multiplies;
    bool y_is_one;  // its first byte meets all
    std::size_t count;
    std::uint8_t* out;
    byte_end end;
};

// Windows of one pixel: `rows` times `columns` pixels exist, `counted` of them count.
struct averaged_pixel {
    const std::uint8_t* x;
    std::size_t rows, row_step, columns, column_step, counted;
    byte_quantity of_x;
    std::size_t channels;
    std::uint8_t* out;
    byte_end end;
};

struct integer_loops {
    void (*convolve)(const convolved_tile&);
    void (*convolve_channels)(const convolved_channels&);
    // to[i] = the larger one of to[i] and x[i].
    void (*take_larger)(const std::uint8_t* x, std::size_t count, std::uint8_t* to);
    void (*quantize)(const float* x, std::size_t count, const byte_end& end, std::uint8_t* to);
    // to[i] = table[x[i]]; the table has 256 bytes.
    void (*map)(const std::uint8_t* table, const std::uint8_t* x, std::size_t count, std::uint8_t* to);
    void (*combine)(const combined_bytes&);
    void (*average)(const averaged_pixel&);
    void (*dequantize)(const std::uint8_t* x, std::size_t count, const byte_quantity& as, float* to);
};
extern const integer_loops integer_loops_baseline, integer_loops_avx2, integer_loops_avx512, integer_loops_vnni,
    integer_loops_vbmi;

}  // namespace sluice::kernels
