// SPDX-License-Identifier: Apache-2.0
// Kernels of quantized_mlp for Hopper that the library does not take: f8_e4m3, for bench/quantized_mlp.cpp.
#pragma once

#include <string>
#include <vector>

#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"

namespace sluice::bench {

struct quantized_mlp_variant {
    std::string name;
    launch_command command;  // everything except the closure
};

// The variants that exist for the network's width. Inputs and outputs are as wide as it.
std::vector<quantized_mlp_variant> quantized_mlp_variants(const kernels::quantized_mlp_call& call,
                                                          const device_properties& gpu);

}  // namespace sluice::bench
