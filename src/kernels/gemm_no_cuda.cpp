// gemm on a GPU, in a build without CUDA: there are no such devices, so nobody comes here.
#include "kernels/gemm_bodies.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::kernels {

bool gemm_on_cuda_fuses(activation) noexcept { return false; }
std::size_t gemm_on_cuda_workspace_bytes() noexcept { return 0; }

void gemm_on_cuda(const gemm_call&, const native_stream&) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", {"gemm"});
}

}  // namespace sluice::kernels
