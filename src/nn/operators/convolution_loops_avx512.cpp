// SPDX-License-Identifier: Apache-2.0
// The loops of convolution_loops.hpp for AVX-512 (F, BW, DQ and VL).
#include "nn/operators/convolution_loops_of_unit.hpp"

namespace sluice::nn::operators {

const convolution_loops convolution_loops_avx512 = convolution_loops_of_this_unit;

}  // namespace sluice::nn::operators
