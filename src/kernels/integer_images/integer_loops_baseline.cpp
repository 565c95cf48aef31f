// SPDX-License-Identifier: Apache-2.0
#define SLUICE_LANES 4
#define SLUICE_TILE_PIXELS 4
#define SLUICE_TILE_PANELS 1
#include "kernels/integer_images/integer_loops_of_unit.hpp"

namespace sluice::kernels {

const integer_loops integer_loops_baseline = loops_of_this_unit;

}  // namespace sluice::kernels
