// SPDX-License-Identifier: Apache-2.0
// The functions of recurrent_units.hpp for AVX2 and FMA.
#include "kernels/recurrent/recurrent_loops.hpp"

namespace sluice::kernels {

const recurrent_units recurrent_units_avx2 = recurrent_units_of_this_unit;

}  // namespace sluice::kernels
