// SPDX-License-Identifier: Apache-2.0
// The functions of row_math.hpp for any processor.
#include "kernels/reduction/row_math_loops.hpp"

namespace sluice::kernels {

const row_math row_math_baseline = row_math_of_this_unit;

}  // namespace sluice::kernels
