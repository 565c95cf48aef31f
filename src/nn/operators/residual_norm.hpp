// SPDX-License-Identifier: Apache-2.0
// add_and_normalize: the sum of two tensors and its LayerNormalization over the last dimension, as one kernel.
#pragma once

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// All have the shape of `a`. Any of the results may be left out.
struct residual_results {
    any_tensor sum;         // f32
    any_tensor normalized;  // f32
    any_tensor narrow;      // the same, rounded to f16 or bf16
};

// a and b are f32, f16 or bf16; scale and bias, which may be left out, are f32 [width].
void add_and_normalize(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& scale,
                       const any_tensor& bias, double epsilon, const residual_results& to);

}  // namespace sluice::nn::operators
