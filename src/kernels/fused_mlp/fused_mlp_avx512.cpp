// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with AVX-512: 32 registers of 16 floats.
#define SLUICE_TILE_ROWS 12
#define SLUICE_TILE_SUMS 24
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

const cpu_loops fused_mlp_avx512 = {&layer_columns, &layer_of_single_columns, &softmax_rows};

}  // namespace sluice::kernels
