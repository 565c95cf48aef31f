// SPDX-License-Identifier: Apache-2.0
// What a pass makes of MatMulInteger and ConvInteger with constant weights, and Cast, Mul, Add, Relu after it, on a CPU
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

// Likewise of ConvInteger: the images, their scale and zero point; the image of the filters; on the host i64 [1]:
// whether a ReLU follows; and the filters, of which only the shape matters.
inline constexpr std::size_t dynamic_convolution_inputs = 6, dynamic_convolution_form_input = 4;
const definition& dynamic_convolution();

}  // namespace sluice::nn::operators
