// SPDX-License-Identifier: Apache-2.0
#define SLUICE_LANES 8
#define SLUICE_TILE_PIXELS 4
#define SLUICE_TILE_PANELS 2
#include "kernels/integer_images/integer_loops_of_unit.hpp"

namespace sluice::kernels {

const integer_loops integer_loops_avx2 = loops_of_this_unit;

}  // namespace sluice::kernels
