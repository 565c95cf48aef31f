// SPDX-License-Identifier: Apache-2.0
// TopK of f32 on a CPU.
#pragma once

#include <cstddef>

#include "nn/operators/node_call.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {

// The k greatest or least elements of x along the axis and their indices, in order; of equal ones the first. NaN is
// greater than all numbers. False: k is large, x is not of f32, or the device is a GPU.
bool top_k_on_cpu(const node_call& in, const any_tensor& x, const axis_view& view, std::size_t k, bool greatest,
                  const any_tensor& values, const any_tensor& indices);

}  // namespace sluice::nn::operators
