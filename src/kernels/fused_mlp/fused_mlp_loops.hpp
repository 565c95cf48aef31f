// SPDX-License-Identifier: Apache-2.0
// The loops of fused_mlp on a CPU, for a file that is compiled for one kind of vector unit: it defines
// SLUICE_TILE_ROWS and SLUICE_TILE_PANELS, the accumulators that its registers hold, and includes this once.
//
// Nothing here has external linkage, and the only inline functions of other headers that are called are always inlined
// (activated<What>): of any other the linker could take this file's instance for the whole program, on a processor
// without the unit.
#pragma once

#include <math.h>

#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {
namespace {

using panel __attribute__((vector_size(64))) = float;                    // a whole panel's row
using loose_panel __attribute__((vector_size(64), aligned(4))) = float;  // wherever it is

// A tile of `Rows` rows by `Panels` panels: out = bias + x * weight, in registers.
template <int Rows, int Panels>
void multiply_tile(const float* x, std::size_t x_stride, const float* weight, const float* bias, std::size_t in,
                   float* out, std::size_t out_stride) {
    panel sum[Rows][Panels];
    for (int p = 0; p < Panels; ++p) {
        const panel start = *reinterpret_cast<const loose_panel*>(bias + p * panel_columns);
        for (int r = 0; r < Rows; ++r) sum[r][p] = start;
    }
    for (std::size_t k = 0; k < in; ++k) {
        panel w[Panels];
        for (int p = 0; p < Panels; ++p) w[p] = *reinterpret_cast<const loose_panel*>(weight + (p * in + k) * 16);
        for (int r = 0; r < Rows; ++r) {
            const float each = x[r * x_stride + k];
            for (int p = 0; p < Panels; ++p) sum[r][p] += each * w[p];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int p = 0; p < Panels; ++p)
            *reinterpret_cast<loose_panel*>(out + r * out_stride + p * panel_columns) = sum[r][p];
    }
}

// The same over all panels: `Panels` at a time, the rest one by one.
template <int Rows, int Panels>
void multiply_rows(const float* x, std::size_t x_stride, const float* weight, const float* bias, std::size_t in,
                   std::size_t panels, float* out, std::size_t out_stride) {
    std::size_t p = 0;
    for (; p + Panels <= panels; p += Panels) {
        multiply_tile<Rows, Panels>(x, x_stride, weight + p * in * 16, bias + p * 16, in, out + p * 16, out_stride);
    }
    for (; p < panels; ++p) {
        multiply_tile<Rows, 1>(x, x_stride, weight + p * in * 16, bias + p * 16, in, out + p * 16, out_stride);
    }
}

// Rows in whole tiles. The weights of some panels stay in the second cache while one tile after the other reads them.
template <int Panels>
void multiply_panels(const float* x, std::size_t x_stride, std::size_t rows, const float* weight, const float* bias,
                     std::size_t in, float* out, std::size_t out_stride) {
    for (std::size_t r = 0; r < rows; r += SLUICE_TILE_ROWS) {
        multiply_tile<SLUICE_TILE_ROWS, Panels>(x + r * x_stride, x_stride, weight, bias, in, out + r * out_stride,
                                                out_stride);
    }
}

void multiply(const float* x, std::size_t x_stride, std::size_t rows, const float* weight, const float* bias,
              std::size_t in, std::size_t panels, float* out, std::size_t out_stride) {
    std::size_t r = rows / SLUICE_TILE_ROWS * SLUICE_TILE_ROWS, p = 0;
    for (; p + SLUICE_TILE_PANELS <= panels; p += SLUICE_TILE_PANELS) {
        multiply_panels<SLUICE_TILE_PANELS>(x, x_stride, r, weight + p * in * 16, bias + p * 16, in, out + p * 16,
                                            out_stride);
    }
    for (; p < panels; ++p) {
        multiply_panels<1>(x, x_stride, r, weight + p * in * 16, bias + p * 16, in, out + p * 16, out_stride);
    }
    for (; r + 4 <= rows; r += 4) {
        multiply_rows<4, SLUICE_TILE_PANELS>(x + r * x_stride, x_stride, weight, bias, in, panels, out + r * out_stride,
                                             out_stride);
    }
    // More panels at once: a sum must not wait for itself.
    for (; r + 2 <= rows; r += 2) {
        multiply_rows<2, 2 * SLUICE_TILE_PANELS>(x + r * x_stride, x_stride, weight, bias, in, panels,
                                                 out + r * out_stride, out_stride);
    }
    for (; r < rows; ++r) {
        multiply_rows<1, 4 * SLUICE_TILE_PANELS>(x + r * x_stride, x_stride, weight, bias, in, panels,
                                                 out + r * out_stride, out_stride);
    }
}

template <activation What>
void apply(float* x, std::size_t stride, std::size_t rows, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) x[r * stride + c] = activated<What>(x[r * stride + c]);
    }
}

void softmax_row(float* x, std::size_t columns) {
    float largest = -INFINITY;
    for (std::size_t c = 0; c < columns; ++c) largest = x[c] > largest ? x[c] : largest;
    float sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += x[c] = expf(x[c] - largest);  // NaN stays, and makes the sum NaN
    for (std::size_t c = 0; c < columns; ++c) x[c] /= sum;
}

void softmax_rows(float* x, std::size_t stride, std::size_t rows, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) softmax_row(x + r * stride, columns);
}

void activate(float* x, std::size_t stride, std::size_t rows, std::size_t columns, activation what) {
    switch (what) {
        case activation::none:
        case activation::softmax: return;
        case activation::relu: return apply<activation::relu>(x, stride, rows, columns);
        case activation::gelu: return apply<activation::gelu>(x, stride, rows, columns);
        case activation::sigmoid: return apply<activation::sigmoid>(x, stride, rows, columns);
        case activation::tanh: return apply<activation::tanh>(x, stride, rows, columns);
    }
}

void layer_columns(const cpu_columns& what) {
    const std::size_t all = (what.columns + 15) / 16, panels = what.last_panel - what.first_panel;
    const float* const bias = what.image + all * what.in * 16;
    float* const out = what.out + what.first_panel * 16;
    multiply(what.x, what.x_stride, what.rows, what.image + what.first_panel * what.in * 16,
             bias + what.first_panel * 16, what.in, panels, out, what.out_stride);
    const std::size_t end = what.last_panel * 16 < what.columns ? what.last_panel * 16 : what.columns;
    activate(out, what.out_stride, what.rows, end - what.first_panel * 16, what.after);
}

float* forward(const cpu_block& block, const float* image, const detail::fused_mlp_form& form) {
    const float* x = block.x;
    std::size_t x_stride = block.x_stride;
    float* out = nullptr;
    for (std::size_t layer = 0; layer < form.layers; ++layer) {
        const std::size_t in = form.features[layer], columns = form.features[layer + 1];
        const std::size_t panels = (columns + 15) / 16;
        out = block.activations[layer % 2];
        layer_columns({x, x_stride, block.rows, image, in, columns, form.after[layer], out, block.stride, 0, panels});
        if (form.after[layer] == activation::softmax) softmax_rows(out, block.stride, block.rows, columns);
        image += panels * 16 * (in + 1);
        x = out;
        x_stride = block.stride;
    }
    return out;
}

}  // namespace
}  // namespace sluice::kernels
