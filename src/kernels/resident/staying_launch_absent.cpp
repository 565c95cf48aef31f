// SPDX-License-Identifier: Apache-2.0
// Kernels that stay on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/resident/staying_launch.hpp"

namespace sluice::kernels {
namespace {

[[noreturn]] void refuse(const error_context& context) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", context);
}

}  // namespace

bool loads_kernels_lazily(const error_context& context) { refuse(context); }
void launch_staying(const native_stream&, const staying_launch&, const error_context& context) { refuse(context); }
bool note_staying_begin(std::chrono::nanoseconds) noexcept { return false; }
void note_staying_end() noexcept {}

}  // namespace sluice::kernels
