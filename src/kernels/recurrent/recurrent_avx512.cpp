// SPDX-License-Identifier: Apache-2.0
// The functions of recurrent_units.hpp for AVX-512.
#include "kernels/recurrent/recurrent_loops.hpp"

namespace sluice::kernels {

const recurrent_units recurrent_units_avx512 = recurrent_units_of_this_unit;

}  // namespace sluice::kernels
