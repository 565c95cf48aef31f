// SPDX-License-Identifier: Apache-2.0
// reduce: sums and the like over some dimensions of a tensor, for all operators that need them.
//
//     const any_tensor mean = in.make(io::dtype::f32, kept_lengths(x.shape(), axes));
//     reduce(in, reduction::sum, x, axes, mean, {.finish = reduction_finish::mean});
//
// Floating point elements are added up in double, integers in 64 bits that wrap around. NaN makes a result NaN. On a
// GPU many elements are reduced in several steps, so that there is work for all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

enum class reduction : std::uint8_t {
    sum,
    absolute_sum,
    square_sum,  // of the distance to the centre, where there is one
    product,
    maximum,
    minimum,
    exponential_sum,      // sum of exp(x - centre)
    log_exponential_sum,  // log(sum of exp(x)), which does not overflow
};

// What is done with the result. All but mean give numbers as doubles: also for integers.
enum class reduction_finish : std::uint8_t { nothing, mean, root, logarithm };

struct reduce_options {
    reduction_finish finish = reduction_finish::nothing;
    // One number for each result, f32 or f64: for square_sum and exponential_sum.
    const any_tensor* centre = nullptr;
};

// Each element of `to`, of any type, is made of the elements of x along the axes (in order, each once). Of nothing the
// sum is 0, the product 1, the maximum the least number of to's type, the minimum the greatest, the mean NaN or 0.
void reduce(const node_call& in, reduction what, const any_tensor& x, const std::vector<std::size_t>& axes,
            const any_tensor& to, const reduce_options& options = {});

// The shape with 1 at the axes; and without them.
lengths kept_lengths(const lengths& shape, const std::vector<std::size_t>& axes);
lengths remaining_lengths(const lengths& shape, const std::vector<std::size_t>& axes);

// A tensor seen along one axis: element r of row (o, i) is at (o * length + r) * inner + i.
struct axis_view {
    std::size_t outer = 1, length = 1, inner = 1;

    std::size_t rows() const { return outer * inner; }
};
axis_view view_along(const lengths& shape, std::size_t axis);

// On a GPU.
bool is_on_gpu(const node_call& in);

}  // namespace sluice::nn::operators
