// SPDX-License-Identifier: Apache-2.0
// What comes after the sums of a product, as commands of their own on a stream of either device.
#pragma once

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::kernels {

// x = relu(x), in place, for float, half and bfloat16: 16 bytes a thread on a GPU.
template <typename T>
void rectify(stream on, tensor<T>& x, const source_location& location);

// The product over an inner dimension of 0: each row of out, a matrix, becomes after(bias), or after(0) without a bias.
// Any activation but softmax.
template <typename T>
void finish_empty_product(stream on, const tensor<T>* bias, tensor<T>& out, activation after,
                          const source_location& location);

}  // namespace sluice::kernels
