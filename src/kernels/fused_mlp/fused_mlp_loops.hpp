// SPDX-License-Identifier: Apache-2.0
// The loops of fused_mlp on a CPU, for a file that is compiled for one kind of vector unit: it defines
// SLUICE_TILE_ROWS, the most rows of a tile, and SLUICE_TILE_SUMS, how many panels' rows its registers hold as
// accumulators, and includes this once.
//
// Nothing here has external linkage, and no inline function of a header with external linkage is called: the linker
// could take this file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "kernels/elementwise/activation_loops.hpp"
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/fused_mlp/fused_mlp_single_columns.hpp"
#include "kernels/fused_mlp/fused_mlp_vectors.hpp"

namespace sluice::kernels {
namespace {

// A tile of `Rows` rows by `Panels` panels: out = bias + x * weight, in registers.
template <int Rows, int Panels>
void multiply_tile(const tile_place& at) {
    panel sum[Rows][Panels];
    unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
        const panel start = *reinterpret_cast<const loose_panel*>(at.bias + p * 16);
        unrolled<Rows>([&](auto r) __attribute__((always_inline)) { sum[r][p] = start; });
    });
    const float *x = at.x, *weight = at.weight;
    const std::size_t in = at.in, x_stride = at.x_stride;
    for (const float* const end = weight + in * 16; weight != end; ++x, weight += 16) {
        panel w[Panels];
        for (int p = 0; p < Panels; ++p) w[p] = *reinterpret_cast<const loose_panel*>(weight + p * in * 16);
        for (int r = 0; r < Rows; ++r) {
            const float each = x[r * x_stride];
            for (int p = 0; p < Panels; ++p) add_product(sum[r][p], each, w[p]);
        }
    }
    float* const out = at.out;
    const panel floor = panel{} + at.floor;
    const std::size_t out_stride = at.out_stride, last_columns = at.last_columns;
    unrolled<Rows>([&](auto r) __attribute__((always_inline)) {
        unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
            raise_to(floor, sum[r][p]);
            float* const to = out + r * out_stride + p * 16;
            if (p + 1 < Panels || last_columns == 16) {
                *reinterpret_cast<loose_panel*>(to) = sum[r][p];
            } else {
                store_columns(sum[r][p], last_columns, to);
            }
        });
    });
}

// How many panels a tile of some rows has, if there are enough. The fewer rows, the more: a sum must not wait for
// itself.
constexpr std::size_t panels_of_tile(std::size_t rows) {
    return 4 * rows <= SLUICE_TILE_SUMS ? 4 : 2 * rows <= SLUICE_TILE_SUMS ? 2 : 1;
}

template <int Rows>
tile_function tile_of_rows(std::size_t rows, std::size_t panels) {
    if (rows == Rows) {
        if constexpr (panels_of_tile(Rows) >= 4)
            if (panels == 4) return &multiply_tile<Rows, 4>;
        if constexpr (panels_of_tile(Rows) >= 2)
            if (panels == 2) return &multiply_tile<Rows, 2>;
        return &multiply_tile<Rows, 1>;
    }
    if constexpr (Rows > 1) return tile_of_rows<Rows - 1>(rows, panels);
    return nullptr;
}

// All rows of some panels, which stay in the second cache while one tile after the other reads them. The first `longer`
// tiles have one row more than the others.
void multiply_panels(tile_place at, std::size_t panels, std::size_t tiles, std::size_t rows, std::size_t longer) {
    const tile_function tile = tile_of_rows<SLUICE_TILE_ROWS>(rows, panels);
    const tile_function longer_tile = longer == 0 ? tile : tile_of_rows<SLUICE_TILE_ROWS>(rows + 1, panels);
    for (std::size_t t = 0; t < tiles; ++t) {
        (t < longer ? longer_tile : tile)(at);
        const std::size_t done = t < longer ? rows + 1 : rows;
        at.x += done * at.x_stride;
        at.out += done * at.out_stride;
    }
}

// Rows in tiles that are about equally high.
void multiply(const cpu_columns& what, const float* weight, const float* bias, float* out) {
    if (what.rows == 0) return;
    const std::size_t panels = what.last_panel - what.first_panel;
    const std::size_t tiles = (what.rows + SLUICE_TILE_ROWS - 1) / SLUICE_TILE_ROWS;
    const std::size_t rows = what.rows / tiles, longer = what.rows % tiles;
    const std::size_t most = what.last_panel * 16;  // columns, in whole panels
    const std::size_t last_columns = what.columns < most ? 16 - (most - what.columns) : 16;
    std::size_t width = panels_of_tile(longer == 0 ? rows : rows + 1);
    for (std::size_t p = 0; p < panels; p += width) {
        while (p + width > panels) width /= 2;
        multiply_panels({what.x, what.x_stride, weight + p * what.in * 16, bias + p * 16, what.in, out + p * 16,
                         what.out_stride, p + width == panels ? last_columns : 16, floor_of(what.after)},
                        width, tiles, rows, longer);
    }
}

void softmax_rows(float* x, std::size_t stride, std::size_t rows, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) softmax_of_row(x + r * stride, columns);
}

void layer_columns(const cpu_columns& what) {
    const std::size_t all = (what.columns + 15) / 16;
    const float* const bias = what.image + all * what.in * 16;
    float* const out = what.out + what.first_panel * 16;
    multiply(what, what.image + what.first_panel * what.in * 16, bias + what.first_panel * 16, out);
    const std::size_t end = what.last_panel * 16 < what.columns ? what.last_panel * 16 : what.columns;
    activate_rows(out, what.out_stride, what.rows, end - what.first_panel * 16, what.after);
}

void layer_of_single_columns(const cpu_columns& what) {
    multiply_single_columns(what);
    activate_rows(what.out, what.out_stride, what.rows, what.columns, what.after);
}

}  // namespace
}  // namespace sluice::kernels
