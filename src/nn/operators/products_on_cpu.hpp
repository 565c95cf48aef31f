// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/operators/node_call.hpp"
#include "nn/operators/products.hpp"

namespace sluice::nn::operators {

// The products of `multiply`, of f32 on a CPU, in one command and without copies. False: these matrices are too large
// for it, or too narrow, or the device is a GPU, or they are of another type.
bool multiply_on_cpu(const node_call& in, const any_tensor& a, const any_tensor& b, const any_tensor& y,
                     const product_layout& at);

}  // namespace sluice::nn::operators
