// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU: a block of rows goes through all layers before the next one does, so that its activations stay in
// a near cache. Workers share the rows where each gets enough of them to make up for reading all weights. Else they
// share the columns of each layer, so that a core reads only its part of the weights; then the layers of a block are
// phases, and parts of neighbouring columns are on the same core in the next call. Each element is the same sum in the
// same order, on every thread and with every number of rows.
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
inline constexpr std::size_t rows_of_cpu_block = 48;
// Of quantized networks: rows of a part are a multiple of this.
inline constexpr std::size_t rows_of_cpu_part = 12;

constexpr std::size_t panels_of(std::size_t columns) { return (columns + panel_columns - 1) / panel_columns; }
constexpr std::size_t cpu_layer_floats(std::size_t in, std::size_t out) {
    return panels_of(out) * panel_columns * (in + 1);
}

// From a row of activations to the next one, in floats; `widest` is the largest number of columns of a layer.
std::size_t cpu_stride(std::size_t widest) noexcept;
// How many parts of the rows of a quantized network workers share.
std::size_t cpu_parts_of_rows(std::size_t rows, const detail::fused_mlp_form& form) noexcept;

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
    std::size_t first_panel, last_panel;  // the columns of those in between are written
};

// The loops for one kind of vector unit.
struct cpu_loops {
    void (*layer)(const cpu_columns& what);  // without a softmax, which needs whole rows
    void (*softmax)(float* x, std::size_t stride, std::size_t rows, std::size_t columns);
};
extern const cpu_loops fused_mlp_baseline, fused_mlp_avx2, fused_mlp_avx512;
// Those for this processor.
const cpu_loops& best_cpu_loops();

}  // namespace sluice::kernels
