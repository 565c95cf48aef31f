// SPDX-License-Identifier: Apache-2.0
// quantized_mlp on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {

launch_command quantized_mlp_on_cuda(const quantized_mlp_call&, eight_bit_type, device&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"fused_mlp"});
}

}  // namespace sluice::kernels
