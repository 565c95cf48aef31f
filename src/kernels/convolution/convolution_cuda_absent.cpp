// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/convolution/convolution_dispatch.hpp"
#include "kernels/convolution/pooling_dispatch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {

std::optional<std::size_t> convolution_on_cuda_workspace_bytes(const convolution_form&, device&) {
    return std::nullopt;
}
bool pooling_on_cuda_is_there(const pooling_form&, device&) { return false; }

void convolution_on_cuda(const convolution_call&, const native_stream&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"convolution"});
}
void pooling_on_cuda(const pooling_call&, const native_stream&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"pooling"});
}

}  // namespace sluice::kernels
