// SPDX-License-Identifier: Apache-2.0
// A build without cuDNN's header.
#include "cuda/fused_convolutions.hpp"
#include "sluice/base/error.hpp"

namespace sluice::cuda {

class fused_convolutions::plan {};
struct fused_convolutions::state {};

fused_convolutions::fused_convolutions(device_context&) {}
fused_convolutions::~fused_convolutions() = default;

auto fused_convolutions::plans(const fused_convolution&, std::size_t) const
    -> std::vector<std::shared_ptr<const plan>> {
    return {};
}
void fused_convolutions::run(const plan&, const fused_operands&, void*, CUstream_st*) const {
    throw error(errc::unsupported, "this build of Sluice has no cuDNN", {"convolution"});
}
std::size_t fused_convolutions::workspace_bytes(const plan&) noexcept { return 0; }
std::string fused_convolutions::text(const plan&) { return {}; }

}  // namespace sluice::cuda
