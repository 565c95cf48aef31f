// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with AVX2 and FMA: 16 registers of 8 floats.
#define SLUICE_TILE_ROWS 6
#define SLUICE_TILE_PANELS 1
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

float* fused_mlp_avx2(const cpu_block& block, const float* image, const detail::fused_mlp_form& form) {
    return forward(block, image, form);
}

}  // namespace sluice::kernels
