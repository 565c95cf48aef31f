// SPDX-License-Identifier: Apache-2.0
// The loops of image programs with AVX-512: 32 registers of 16 floats.
#define SLUICE_TILE_PIXELS_1 14
#define SLUICE_TILE_PIXELS_2 14
#define SLUICE_TILE_PIXELS_3 9
#define SLUICE_CHANNEL_PIXELS 7
#include "kernels/channels_last/image_vectors.hpp"

namespace sluice::kernels {

const image_loops image_loops_avx512 = loops_of_this_unit;

}  // namespace sluice::kernels
