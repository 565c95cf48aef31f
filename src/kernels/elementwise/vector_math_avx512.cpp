// SPDX-License-Identifier: Apache-2.0
// The functions of vector_math.hpp for AVX-512.
#include "kernels/elementwise/vector_math_loops.hpp"

namespace sluice::kernels {

const vector_math vector_math_avx512 = vector_math_of_this_unit;

}  // namespace sluice::kernels
