// SPDX-License-Identifier: Apache-2.0
// The loops of product_loops.hpp for any processor.
#include "nn/operators/product_loops_of_unit.hpp"

namespace sluice::nn::operators {

const product_loops product_loops_baseline = product_loops_of_this_unit;

}  // namespace sluice::nn::operators
