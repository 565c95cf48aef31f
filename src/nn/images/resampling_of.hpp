// SPDX-License-Identifier: Apache-2.0
// Which of the nodes Resize a stretch of convolutions has, and where their pixels come from.
#pragma once

#include "kernels/channels_last/image_program.hpp"
#include "nn/prepared_graph.hpp"

namespace sluice::nn::detail {

// Whether it changes rows and columns only, by scales or sizes that are constants, to the nearest pixel or linearly.
bool can_be_resampled(const prepared_graph& in, const step& of);

// For such a node and images of these sizes. Positions are those of the operator (operators/resampling_kernels.hpp).
kernels::image_resampling resampling_of(const prepared_graph& in, const step& of, const kernels::image_size& from,
                                        const kernels::image_size& to);

}  // namespace sluice::nn::detail
