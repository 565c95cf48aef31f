// The fused MLP's kernels in forms that lost, or are for other GPUs: f16, for the bench beside this.
#pragma once

#include <string>
#include <vector>

#include "kernels/fused_mlp_bodies.hpp"

namespace sluice::bench {

struct fused_mlp_variant {
    std::string name;
    launch_command command;  // all but the closure
};

// Those that there are for the network's width.
std::vector<fused_mlp_variant> fused_mlp_variants(const kernels::fused_mlp_call& call, const device_properties& gpu);

}  // namespace sluice::bench
