// SPDX-License-Identifier: Apache-2.0
// The two ways of fused_mlp on a GPU. Each gives the kernel for the network and what it is launched with, all but the
// closure.
#pragma once

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"

namespace sluice::kernels {

// With Hopper's own instructions; the file is compiled for sm_90a alone, and the kernels run nowhere else.
launch_command fused_mlp_on_hopper(const fused_mlp_call& call, fused_type type, const device_properties& gpu);
// With mma.sync: sm_80 and later.
launch_command fused_mlp_with_mma(const fused_mlp_call& call, fused_type type, const device_properties& gpu);

}  // namespace sluice::kernels
