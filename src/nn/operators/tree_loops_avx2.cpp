// SPDX-License-Identifier: Apache-2.0
// The loops of tree_loops.hpp for AVX2.
#include "nn/operators/tree_loops_of_unit.hpp"

namespace sluice::nn::operators {

const tree_loops tree_loops_avx2 = tree_loops_of_this_unit;

}  // namespace sluice::nn::operators
