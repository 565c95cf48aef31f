// SPDX-License-Identifier: Apache-2.0
// fused_mlp on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {

launch_command fused_mlp_on_cuda(const fused_mlp_call&, fused_type, device&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"fused_mlp"});
}

}  // namespace sluice::kernels
