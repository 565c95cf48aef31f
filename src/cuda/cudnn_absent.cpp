// SPDX-License-Identifier: Apache-2.0
// A build without cuDNN's header: supports nothing, so the kernels do not call it.
#include "cuda/cudnn_library.hpp"
#include "sluice/base/error.hpp"

namespace sluice::cuda {

struct cudnn_library::state {};

cudnn_library::cudnn_library(int) {}
cudnn_library::~cudnn_library() = default;

std::optional<std::size_t> cudnn_library::workspace_bytes(const cudnn_convolution&) { return std::nullopt; }
bool cudnn_library::can_pool(const cudnn_pooling&) { return false; }

void cudnn_library::convolve(const cudnn_convolution&, const float*, const float*, float*, void*, std::size_t,
                             CUstream_st*) {
    throw error(errc::unsupported, "this build of Sluice has no cuDNN", {"convolution"});
}
void cudnn_library::pool(const cudnn_pooling&, const float*, float*, CUstream_st*) {
    throw error(errc::unsupported, "this build of Sluice has no cuDNN", {"pooling"});
}

}  // namespace sluice::cuda
