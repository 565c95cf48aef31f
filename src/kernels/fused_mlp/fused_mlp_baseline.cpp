// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with what every processor of the architecture has.
#define SLUICE_TILE_ROWS 2
#define SLUICE_TILE_PANELS 1
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

float* fused_mlp_baseline(const cpu_block& block, const float* image, const detail::fused_mlp_form& form) {
    return forward(block, image, form);
}

}  // namespace sluice::kernels
