// SPDX-License-Identifier: Apache-2.0
// gemm on a GPU, in a build without CUDA: there are no such devices, so this code never runs.
#include "kernels/gemm/gemm_dispatch.hpp"

#include <filesystem>
#include <functional>
#include <span>

#include "sluice/base/error.hpp"

namespace sluice::kernels {
namespace {

[[noreturn]] void refuse() { throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"gemm"}); }

}  // namespace

bool gemm_on_cuda_fuses(const gemm_call&) noexcept { return false; }
std::size_t gemm_on_cuda_workspace_bytes() noexcept { return 0; }
void gemm_on_cuda(const gemm_call&, const native_stream&) { refuse(); }
gemm_algorithm choose_gemm_algorithm(device&, const gemm_call&) { refuse(); }
std::vector<gemm_measurement> tune_gemm_on_cuda(device&, std::span<const gemm_problem>, const std::filesystem::path&,
                                                const std::function<void(const gemm_measurement&)>&) {
    refuse();
}

}  // namespace sluice::kernels
