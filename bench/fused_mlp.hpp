// SPDX-License-Identifier: Apache-2.0
// Kernels of the fused MLP that lost, or that are for other GPUs: f16, for bench/fused_mlp.cpp.
#pragma once

#include <string>
#include <vector>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"

namespace sluice::bench {

struct fused_mlp_variant {
    std::string name;
    launch_command command;  // everything except the closure
};

// The variants that exist for the network's width.
std::vector<fused_mlp_variant> fused_mlp_variants(const kernels::fused_mlp_call& call, const device_properties& gpu);

}  // namespace sluice::bench
