// SPDX-License-Identifier: Apache-2.0
// The loops of image programs with AVX2: 16 registers of 8 floats.
#define SLUICE_TILE_PIXELS_1 6
#define SLUICE_TILE_PIXELS_2 3
#define SLUICE_TILE_PIXELS_3 2
#define SLUICE_CHANNEL_PIXELS 3
#include "kernels/channels_last/image_vectors.hpp"

namespace sluice::kernels {

const image_loops image_loops_avx2 = loops_of_this_unit;

}  // namespace sluice::kernels
