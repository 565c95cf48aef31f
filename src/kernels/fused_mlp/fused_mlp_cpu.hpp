// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU: a block of rows goes through all layers before the next one does, so that the activations of
// narrow layers stay in the first cache and their weights in the second; the weights of wide ones are read from front
// to back. The loops are compiled three times, for the vector units that x86-64 processors have (fused_mlp_avx512.cpp,
// fused_mlp_avx2.cpp, and fused_mlp_baseline.cpp, which is the only one elsewhere); which of them runs is asked of the
// processor, once.
//
// The image: for each layer panels of 16 columns, [panels][in][16] float, then [panels][16] biases.
#pragma once

#include <cstddef>

#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::kernels {

inline constexpr std::size_t panel_columns = 16;
inline constexpr std::size_t rows_of_cpu_block = 48;

constexpr std::size_t panels_of(std::size_t columns) { return (columns + panel_columns - 1) / panel_columns; }
constexpr std::size_t cpu_layer_floats(std::size_t in, std::size_t out) {
    return panels_of(out) * panel_columns * (in + 1);
}

// A few rows and the memory they need on their way.
struct cpu_block {
    const float* x;
    std::size_t x_stride;
    std::size_t rows;       // at most rows_of_cpu_block
    float* activations[2];  // [rows][stride] each; the outputs end up in the one that is returned
    std::size_t stride;     // all layers' columns, in whole panels
};

using cpu_forward = float*(const cpu_block& block, const float* image, const detail::fused_mlp_form& form);
cpu_forward fused_mlp_baseline;
cpu_forward fused_mlp_avx2;
cpu_forward fused_mlp_avx512;

}  // namespace sluice::kernels
