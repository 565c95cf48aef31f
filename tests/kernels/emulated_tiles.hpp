// SPDX-License-Identifier: Apache-2.0
// Kernels with the loop over tiles of rounded_tiles.hpp, on any processor: the tiles and their instructions are
// variables and functions, after the pseudo-code of Intel's manual for AMX.
#pragma once

#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {

// Of bf16 or int8. Where AMX would stop the program (tiles whose sizes do not fit together), it throws
// std::logic_error.
rounded_kernel emulated_tile_kernel(rounded_type type);

// An addition of the tile unit: fused, to nearest even, with subnormal numbers and results as 0.
float tile_fused_add(float a, float b, float to);

}  // namespace sluice::kernels
