// SPDX-License-Identifier: Apache-2.0
// convolution on a CPU, in a build without oneDNN: im2col and gemm do it, so this code never runs.
#include "kernels/convolution/convolution_dispatch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {

std::optional<std::size_t> convolution_on_cpu_workspace_bytes(const convolution_form&) { return std::nullopt; }

void convolution_on_cpu(const convolution_call&) {
    throw error(errc::unsupported, "this build of Sluice has no oneDNN", {"convolution"});
}

}  // namespace sluice::kernels
