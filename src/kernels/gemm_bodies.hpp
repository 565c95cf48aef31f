// The bodies of gemm: what the library of each device is asked to do.
#pragma once

#include <cstddef>

#include "sluice/kernels/activation.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::kernels {

// All pointers are memory of the device; matrices are row-major and dense. Trivially copyable.
struct gemm_call {
    const float* a;     // [rows, inner]
    const float* b;     // [inner, columns], or [columns, inner] when transposed
    const float* bias;  // [columns], or null
    float* out;         // [rows, columns]
    void* workspace;    // on a GPU
    std::size_t rows;
    std::size_t columns;
    std::size_t inner;
    bool b_is_transposed;
    activation after;
};

// Runs on a worker thread of a CPU device, all of it; throws device_error when the library refuses.
void gemm_on_cpu(const gemm_call& call);
// Whether it also applies this activation; if not, the caller does, behind it.
bool gemm_on_cpu_fuses(activation what) noexcept;

// Enqueues on the native stream of a GPU; throws device_error.
void gemm_on_cuda(const gemm_call& call, const native_stream& on);
bool gemm_on_cuda_fuses(activation what) noexcept;
std::size_t gemm_on_cuda_workspace_bytes() noexcept;

}  // namespace sluice::kernels
