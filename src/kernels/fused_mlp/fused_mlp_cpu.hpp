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
// The image: for each layer panels of 16 columns, [panels][in][16] float, then [panels][16] biases. Where a layer has
// so few columns that most of a panel would be empty, it has its columns one after the other instead, [columns][in,
// rounded up to a multiple of 16] (has_single_columns).
#pragma once

#include <cstddef>

#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::kernels {

inline constexpr std::size_t panel_columns = 16;
inline constexpr std::size_t rows_of_cpu_block = 48;
// Of quantized networks: rows of a part are a multiple of this.
inline constexpr std::size_t rows_of_cpu_part = 12;

// The loops use these too, so they are always inlined (fused_mlp_loops.hpp).
[[gnu::always_inline]] constexpr std::size_t panels_of(std::size_t columns) {
    return (columns + panel_columns - 1) / panel_columns;
}
// Of weights and biases in panels.
constexpr std::size_t panel_floats(std::size_t in, std::size_t out) {
    return panels_of(out) * panel_columns * (in + 1);
}

// Whether the 16 numbers of a vector are products of one column instead of sums of 16 columns. To add them up takes
// about as long as 7 products of a vector.
constexpr bool has_single_columns(std::size_t in, std::size_t out) {
    constexpr std::size_t end_of_sum = 7 * panel_columns;
    return out * (in + end_of_sum) <= panel_columns * in;
}
[[gnu::always_inline]] constexpr std::size_t single_column_floats(std::size_t in) {
    return panels_of(in) * panel_columns;
}
// Of weights, and of biases.
constexpr std::size_t cpu_layer_floats(std::size_t in, std::size_t out) {
    return has_single_columns(in, out) ? out * single_column_floats(in) + panel_columns : panel_floats(in, out);
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
    const float* image;  // of the layer, all of it
    std::size_t in, columns;
    activation after;
    float* out;  // [rows][columns]
    std::size_t out_stride;
    std::size_t first_panel, last_panel;  // the columns of those in between are written
};

// The loops for one kind of vector unit. Layers are without a softmax, which needs whole rows.
struct cpu_loops {
    // In panels. Each sum is bias + x[0] * weight[0] + x[1] * weight[1] ..., added from left to right.
    void (*panels)(const cpu_columns& what);
    // A layer that has_single_columns, with all its columns.
    void (*single_columns)(const cpu_columns& what);
    void (*softmax)(float* x, std::size_t stride, std::size_t rows, std::size_t columns);

    void layer(const cpu_columns& what) const {
        (has_single_columns(what.in, what.columns) ? single_columns : panels)(what);
    }
};
extern const cpu_loops fused_mlp_baseline, fused_mlp_avx2, fused_mlp_avx512;
// Those for this processor.
const cpu_loops& best_cpu_loops();

}  // namespace sluice::kernels
