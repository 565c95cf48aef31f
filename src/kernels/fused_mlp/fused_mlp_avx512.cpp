// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a CPU with AVX-512: 32 registers of 16 floats.
#define SLUICE_TILE_ROWS 12
#define SLUICE_TILE_PANELS 2
#include "kernels/fused_mlp/fused_mlp_loops.hpp"

namespace sluice::kernels {

float* fused_mlp_avx512(const cpu_block& block, const float* image, const detail::fused_mlp_form& form) {
    return forward(block, image, form);
}

}  // namespace sluice::kernels
