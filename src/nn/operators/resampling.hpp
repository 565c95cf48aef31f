// SPDX-License-Identifier: Apache-2.0
// The operators of sampling.cu, for the list in resampling.cu.
#pragma once

namespace sluice::nn::operators {

class node_call;

void grid_sample(node_call& in);
void affine_grid(node_call& in);
void roi_align(node_call& in);
void center_crop_pad(node_call& in);

}  // namespace sluice::nn::operators
