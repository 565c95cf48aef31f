// SPDX-License-Identifier: Apache-2.0
// The loops of convolution_loops.hpp for any processor.
#include "nn/operators/convolution_loops_of_unit.hpp"

namespace sluice::nn::operators {

const convolution_loops convolution_loops_baseline = convolution_loops_of_this_unit;

}  // namespace sluice::nn::operators
