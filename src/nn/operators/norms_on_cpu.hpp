// SPDX-License-Identifier: Apache-2.0
// Norms and softmax of f32 on a CPU: one command each, in which a row is read from memory once.
#pragma once

#include <cstddef>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

// The elements of x are rows of `length`, and each row is brought to a common scale.
struct row_norm {
    std::size_t length = 1;
    double epsilon = 0;
    bool subtracts_mean = true;
    // Element k of row r has number r % period * per_row + k / run of scale and bias.
    std::size_t period = 1, per_row = 0, run = 1;
};
struct norm_tensors {
    const any_tensor &x, &scale, &bias, &to;  // bias: or empty
    // Or empty: of each row the mean, and 1 / sqrt(variance + epsilon). f32.
    const any_tensor &means, &factors;
};

// to = (x - mean) / sqrt(variance + epsilon) * scale + bias; where no mean is subtracted, x / sqrt(mean of the squares
// + epsilon) * scale + bias. False: there is no loop for these tensors, or the device is a GPU.
bool normalize_on_cpu(const node_call& in, const row_norm& how, const norm_tensors& of);

// Softmax along the axis, or its logarithm. False: as above.
bool softmax_on_cpu(const node_call& in, const any_tensor& x, std::size_t axis, bool is_logarithm,
                    const any_tensor& to);

}  // namespace sluice::nn::operators
