// SPDX-License-Identifier: Apache-2.0
// wide_values: a network in f16 or bf16 on a CPU, which computes in f32.
//
// The loops of a CPU are those of f32. So numbers of 16 bits become f32 once, where they enter the network (constants
// when it is made), and 16 bits again where they leave it, or where a step takes nothing else. In between nothing is
// rounded: results are at least as near to the exact ones as those of a network that rounds each value. A value beyond
// 65504 does not become infinite in between.
#pragma once

#include <span>

#include "nn/prepared_graph.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// `inputs`: what the model says of the graph's first inputs; nothing is known of others. After find_host_values, before
// anything is computed of constants. Steps on the host, steps with graphs inside, and operators whose results depend on
// the type stay as they are. Does nothing where no step gains from it.
void widen_values(prepared_graph& in, std::span<const value_info> inputs);

}  // namespace sluice::nn::detail
