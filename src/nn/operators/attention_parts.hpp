// SPDX-License-Identifier: Apache-2.0
// The operators of the family of attention that are in other files.
#pragma once

#include "nn/operators/node_call.hpp"

namespace sluice::nn::operators {

void linear_attention(node_call& in);
void rotary_embedding(node_call& in);
void gated_swish(node_call& in);  // SwiGLU

}  // namespace sluice::nn::operators
