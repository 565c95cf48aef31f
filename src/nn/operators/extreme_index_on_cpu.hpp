// SPDX-License-Identifier: Apache-2.0
// ArgMax and ArgMin of f32 on a CPU.
#pragma once

#include "nn/operators/node_call.hpp"
#include "nn/operators/reduce.hpp"

namespace sluice::nn::operators {

struct extreme_index {
    bool is_maximum = true;
    bool takes_last = false;  // of equal elements; else the first
};

// to[o, i] = the number of the greatest or least element of x along the axis; NaN comes before all others. The axis has
// elements. False: x is not of f32, or the device is a GPU.
bool extreme_index_on_cpu(const node_call& in, const any_tensor& x, const axis_view& view, const extreme_index& what,
                          const any_tensor& to);

}  // namespace sluice::nn::operators
