// SPDX-License-Identifier: Apache-2.0
// dense_layers: what passes make of a stretch of dense layers.
#pragma once

#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::nn::operators {

struct dense_layers {
    packed_mlp<float> network;
    bool takes_matrix;  // one of its nodes does; else rows may have any number of dimensions
};

}  // namespace sluice::nn::operators
