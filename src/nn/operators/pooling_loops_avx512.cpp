// SPDX-License-Identifier: Apache-2.0
// The loops of pooling_loops.hpp for AVX-512 (F, BW, DQ and VL).
#include "nn/operators/pooling_loops_of_unit.hpp"

namespace sluice::nn::operators {

const pooling_loops pooling_loops_avx512 = pooling_loops_of_this_unit;

}  // namespace sluice::nn::operators
