// SPDX-License-Identifier: Apache-2.0
// The loops of expression_loops.hpp for any processor.
#include "nn/operators/expression_loops_of_unit.hpp"

namespace sluice::nn::operators {

const expression_loops expression_loops_baseline = expression_loops_of_this_unit;

}  // namespace sluice::nn::operators
