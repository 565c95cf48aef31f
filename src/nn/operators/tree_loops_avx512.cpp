// SPDX-License-Identifier: Apache-2.0
// The loops of tree_loops.hpp for AVX-512 (F, BW, DQ and VL).
#include "nn/operators/tree_loops_of_unit.hpp"

namespace sluice::nn::operators {

const tree_loops tree_loops_avx512 = tree_loops_of_this_unit;

}  // namespace sluice::nn::operators
