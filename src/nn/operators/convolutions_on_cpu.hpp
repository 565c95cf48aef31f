// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 on a CPU that the library does slowly or not at all: in three dimensions, and in groups of few
// channels.
#pragma once

#include "nn/operators/convolutions.hpp"

namespace sluice::nn::operators {

// Computes y and returns true; false where another way has to be taken. `bias`: null, or a number for each filter.
// Sums are f32, in the order of a filter's numbers.
bool convolve_on_cpu(const node_call& in, const convolution_layout& of, const any_tensor& x, const any_tensor& filter,
                     const any_tensor* bias, const any_tensor& y);
// The same for ConvTranspose, whose filters are [channels, filters / groups, window...]: of.grid.input is the image
// over which the windows are spread.
bool convolve_transposed_on_cpu(const node_call& in, const convolution_layout& of, const any_tensor& x,
                                const any_tensor& filter, const any_tensor* bias, const any_tensor& y);

}  // namespace sluice::nn::operators
