// SPDX-License-Identifier: Apache-2.0
// What the convolutions of all types share: the groups of channels, and the checks of images and filters.
#pragma once

#include <cstddef>

#include "nn/operators/node_call.hpp"
#include "nn/operators/windows.hpp"

namespace sluice::nn::operators {

// Filters are [filters, channels / groups, window...].
struct convolution_layout {
    window_grid grid;
    std::size_t images = 0, groups = 1, channels = 0, filters = 0;  // channels and filters of one group
    std::size_t rank = 0;                                           // dimensions of the image

    lengths output_shape() const { return window_output_shape(grid, images, groups * filters, rank); }
};

// The number of groups. Refuses one that is not positive.
std::size_t convolution_groups(const node_call& in);
// The window: of the filter. Refuses an attribute kernel_shape that says otherwise.
lengths filter_window(const node_call& in, const any_tensor& filter);
// From the node's attributes. Refuses what does not fit together.
convolution_layout convolution_of(const node_call& in, const any_tensor& x, const any_tensor& filter);
// Refuses a bias that is not one number for each filter, of this type.
void require_bias(const node_call& in, std::size_t input, std::size_t filters, io::dtype type);

void integer_convolution(node_call& in);
void quantized_convolution(node_call& in);
void deformable_convolution(node_call& in);
void causal_convolution(node_call& in);
void columns_to_image(node_call& in);

}  // namespace sluice::nn::operators
