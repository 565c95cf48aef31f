// SPDX-License-Identifier: Apache-2.0
// The loops of image programs on any processor: for 16 registers of 4 floats.
#define SLUICE_TILE_PIXELS_1 3
#define SLUICE_TILE_PIXELS_2 1
#define SLUICE_TILE_PIXELS_3 1
#define SLUICE_CHANNEL_PIXELS 1
#include "kernels/channels_last/image_vectors.hpp"

namespace sluice::kernels {

const image_loops image_loops_baseline = loops_of_this_unit;

}  // namespace sluice::kernels
