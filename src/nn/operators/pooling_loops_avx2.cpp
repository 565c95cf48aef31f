// SPDX-License-Identifier: Apache-2.0
// The loops of pooling_loops.hpp for AVX2.
#include "nn/operators/pooling_loops_of_unit.hpp"

namespace sluice::nn::operators {

const pooling_loops pooling_loops_avx2 = pooling_loops_of_this_unit;

}  // namespace sluice::nn::operators
