// SPDX-License-Identifier: Apache-2.0
// Layers with few columns (has_single_columns): the 16 numbers of a vector are products of one column, and are added up
// at the end. A part of fused_mlp_loops.hpp, whose rules hold here too.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/fused_mlp/fused_mlp_vectors.hpp"

namespace sluice::kernels {
namespace {

// `Rows` rows by `Columns` columns.
template <int Rows, int Columns>
void multiply_columns(const tile_place& at) {
    panel sum[Rows][Columns] = {};
    const std::size_t in = at.in, column = single_column_floats(in), whole = in / 16 * 16;
    const auto add = [&](std::size_t k, const auto& load) __attribute__((always_inline)) {
        panel w[Columns];
        for (int c = 0; c < Columns; ++c) w[c] = *reinterpret_cast<const loose_panel*>(at.weight + c * column + k);
        for (int r = 0; r < Rows; ++r) {
            panel x;
            load(at.x + r * at.x_stride + k, x);
            for (int c = 0; c < Columns; ++c) add_product(sum[r][c], x, w[c]);
        }
    };
    for (std::size_t k = 0; k < whole; k += 16) {
        add(k, [](const float* from, panel& to)
                   __attribute__((always_inline)) { to = *reinterpret_cast<const loose_panel*>(from); });
    }
    if (whole != in) {
        add(whole, [left = in - whole](const float* from, panel& to)
                       __attribute__((always_inline)) { load_columns(from, left, to); });
    }
    for (int r = 0; r < Rows; ++r) {
        for (int c = 0; c < Columns; ++c) {
            const float made = at.bias[c] + sum_of(sum[r][c]);
            at.out[r * at.out_stride + c] = made < at.floor ? at.floor : made;
        }
    }
}

template <int Rows>
tile_function columns_of_rows(std::size_t rows, std::size_t columns) {
    if (rows == Rows) {
        return columns == 4   ? &multiply_columns<Rows, 4>
               : columns == 2 ? &multiply_columns<Rows, 2>
                              : &multiply_columns<Rows, 1>;
    }
    if constexpr (Rows > 1) return columns_of_rows<Rows - 1>(rows, columns);
    return nullptr;
}

// A whole layer.
void multiply_single_columns(const cpu_columns& what) {
    constexpr std::size_t most_rows = SLUICE_TILE_SUMS < 8 ? 1 : SLUICE_TILE_SUMS / 4;
    const std::size_t column = single_column_floats(what.in);
    for (std::size_t c = 0; c < what.columns;) {
        const std::size_t left = what.columns - c, width = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        tile_place at{what.x,
                      what.x_stride,
                      what.image + c * column,
                      what.image + what.columns * column + c,
                      what.in,
                      what.out + c,
                      what.out_stride,
                      0,
                      floor_of(what.after)};
        for (std::size_t r = 0; r < what.rows;) {
            const std::size_t rows = what.rows - r < most_rows ? what.rows - r : most_rows;
            columns_of_rows<most_rows>(rows, width)(at);
            at.x += rows * at.x_stride;
            at.out += rows * at.out_stride;
            r += rows;
        }
        c += width;
    }
}

}  // namespace
}  // namespace sluice::kernels
