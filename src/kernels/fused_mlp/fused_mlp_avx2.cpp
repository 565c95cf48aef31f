// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with AVX2 and FMA: 16 registers of 8 floats.
#define SLUICE_TILE_ROWS 6
#define SLUICE_TILE_SUMS 6
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

const cpu_loops fused_mlp_avx2 = {&layer_columns, &layer_of_single_columns, &softmax_rows};

}  // namespace sluice::kernels
