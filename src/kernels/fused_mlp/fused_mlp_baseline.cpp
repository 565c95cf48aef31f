// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with what every processor of the architecture has.
#define SLUICE_TILE_ROWS 2
#define SLUICE_TILE_SUMS 2
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

const cpu_loops fused_mlp_baseline = {&layer_columns, &layer_of_single_columns, &softmax_rows};

}  // namespace sluice::kernels
