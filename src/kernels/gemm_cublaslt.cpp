#include "cuda/cublaslt.hpp"

#include <cstdint>

#include "kernels/gemm_bodies.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {
namespace {

bool is_aligned(const float* operand) { return reinterpret_cast<std::uintptr_t>(operand) % 256 == 0; }

}  // namespace

bool gemm_on_cuda_fuses(activation what) noexcept {
    // cuBLASLt's GELU is the tanh approximation, not the exact form.
    return what == activation::none || what == activation::relu;
}

std::size_t gemm_on_cuda_workspace_bytes() noexcept { return cuda::cublaslt::workspace_bytes; }

void gemm_on_cuda(const gemm_call& call, const native_stream& on) {
    const cuda::matmul_shape shape{call.rows,
                                   call.columns,
                                   call.inner,
                                   call.b_is_transposed,
                                   call.bias != nullptr,
                                   call.after == activation::relu,
                                   is_aligned(call.a) && is_aligned(call.b) && is_aligned(call.out)};
    cuda::device_context::of(on.owner->owner())
        .matmul()
        .multiply(shape, call.a, call.b, call.bias, call.out, call.workspace, static_cast<cudaStream_t>(on.handle));
}

}  // namespace sluice::kernels
