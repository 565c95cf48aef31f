// SPDX-License-Identifier: Apache-2.0
// What a pass makes of MatMulInteger with constant weights, and the Cast, Mul, Add and Relu after it, on a CPU
// (passes/dynamic_products.cpp).
#pragma once

#include <cstddef>

#include "nn/operators/table.hpp"

namespace sluice::nn::operators {

// The inputs: the rows, their scale and zero point, as DynamicQuantizeLinear gives them; the image of the weights
// (kernels/rounded_layers/dynamic_product.hpp); and on the host i64 [3]: the rows and columns of the weights, and
// whether a ReLU follows.
inline constexpr std::size_t dynamic_product_inputs = 5, dynamic_product_form_input = 4;
const definition& dynamic_product();

}  // namespace sluice::nn::operators
