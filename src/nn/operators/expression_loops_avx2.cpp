// SPDX-License-Identifier: Apache-2.0
// The loops of expression_loops.hpp for AVX2 and FMA.
#include "nn/operators/expression_loops_of_unit.hpp"

namespace sluice::nn::operators {

const expression_loops expression_loops_avx2 = expression_loops_of_this_unit;

}  // namespace sluice::nn::operators
