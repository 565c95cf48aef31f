// SPDX-License-Identifier: Apache-2.0
// The loops of product_loops.hpp for AVX2 and FMA.
#include "nn/operators/product_loops_of_unit.hpp"

namespace sluice::nn::operators {

const product_loops product_loops_avx2 = product_loops_of_this_unit;

}  // namespace sluice::nn::operators
