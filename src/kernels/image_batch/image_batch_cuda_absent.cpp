// SPDX-License-Identifier: Apache-2.0
// Image batches in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/image_batch/image_batch.hpp"
#include "sluice/base/error.hpp"

namespace sluice::kernels {

struct batch_plan::state {};

// NOLINTNEXTLINE(performance-unnecessary-value-param): the constructor of builds with CUDA keeps the steps
batch_plan::batch_plan(device&, std::vector<image_step>, std::size_t, std::size_t, short_type, const std::byte*) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"convolutions"});
}
batch_plan::~batch_plan() = default;
std::size_t batch_plan::scratch_bytes() const noexcept { return 0; }
void batch_plan::run(const batch_call&, const native_stream&) const {}
std::string batch_plan::text() const { return {}; }
bool has_image_batches(device&) { return false; }

}  // namespace sluice::kernels
