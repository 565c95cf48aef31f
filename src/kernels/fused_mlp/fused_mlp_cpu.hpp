// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU: a block of rows goes through all layers before the next one does, so that the activations of
// narrow layers stay in the first cache and their weights in the second. Workers share the rows of a narrow network.
// The weights of a wide one come from the third cache: its blocks have more rows, and workers share the columns of each
// layer, so that a core reads its part of the weights once for all rows of a block. Each element is the same sum in the
// same order, on every thread.
//
// The loops are compiled three times, for the vector units that x86-64 processors have (fused_mlp_avx512.cpp,
// fused_mlp_avx2.cpp, and fused_mlp_baseline.cpp, which is the only one elsewhere). The processor is queried once to
// select one.
//
// The image: for each layer panels of 16 columns, [panels][in][16] float, then [panels][16] biases.
#pragma once

#include <cstddef>

#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::kernels {

inline constexpr std::size_t panel_columns = 16;
inline constexpr std::size_t rows_of_cpu_block = 48, rows_of_wide_cpu_block = 120;
// Rows of a part are a multiple of this: of the tiles of all vector units.
inline constexpr std::size_t rows_of_cpu_part = 12;

constexpr std::size_t panels_of(std::size_t columns) { return (columns + panel_columns - 1) / panel_columns; }
constexpr std::size_t cpu_layer_floats(std::size_t in, std::size_t out) {
    return panels_of(out) * panel_columns * (in + 1);
}

// From a row of activations to the next one, in floats; `widest` is the largest number of columns of a layer.
std::size_t cpu_stride(std::size_t widest) noexcept;
// How many parts workers share, where they share rows.
std::size_t cpu_parts_of_rows(std::size_t rows, const detail::fused_mlp_form& form) noexcept;

// A few rows and the memory they need on their way.
struct cpu_block {
    const float* x;
    std::size_t x_stride;
    std::size_t rows;       // at most rows_of_wide_cpu_block
    float* activations[2];  // [rows][stride] each; the outputs end up in the one that is returned
    std::size_t stride;     // all layers' columns, in whole panels
};

// Some columns of one layer, for the rows of a block.
struct cpu_columns {
    const float* x;  // [rows][in]
    std::size_t x_stride;
    std::size_t rows;
    const float* image;  // of the layer
    std::size_t in, columns;
    activation after;
    float* out;  // [rows][columns]
    std::size_t out_stride;
    std::size_t first_panel, last_panel;  // those in between are written
};

// The loops for one kind of vector unit.
struct cpu_loops {
    float* (*forward)(const cpu_block& block, const float* image, const detail::fused_mlp_form& form);
    void (*layer)(const cpu_columns& what);  // without a softmax, which needs whole rows
    void (*softmax)(float* x, std::size_t stride, std::size_t rows, std::size_t columns);
};
extern const cpu_loops fused_mlp_baseline, fused_mlp_avx2, fused_mlp_avx512;
// Those for this processor.
const cpu_loops& best_cpu_loops();

}  // namespace sluice::kernels
