// SPDX-License-Identifier: Apache-2.0
// Poolings of f32 on a CPU, by its vector units.
#pragma once

#include "nn/operators/node_call.hpp"
#include "nn/operators/windows.hpp"

namespace sluice::nn::operators {

enum class pooled : unsigned char { largest, mean, mean_with_padding };

// Computes y, one number for each window of x. False on a GPU, for other types, and where a line of windows reads too
// many elements: then the kernel for any window is to run.
//
// The lines of a window are combined first, then its columns: a sum, which is f64, may differ from the kernel's by
// the order in which it was added up, and a maximum of 0 and -0 by its sign.
bool pool_on_cpu(const node_call& in, const window_grid& grid, pooled what, const any_tensor& x, const any_tensor& y);

}  // namespace sluice::nn::operators
