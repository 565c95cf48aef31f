// Matrix products by cuBLASLt on one GPU. The algorithm for each shape is asked for once and cached.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "cuda/api/cublaslt.hpp"

namespace sluice::cuda {

// out[rows, columns] = a[rows, inner] * b, plus bias[columns] to each row, then ReLU. All row-major, f32.
struct matmul_shape {
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t inner = 0;
    bool b_is_transposed = false;  // b is [columns, inner], as a PyTorch Linear keeps it; else [inner, columns]
    bool has_bias = false;
    bool has_relu = false;
    bool is_aligned = true;  // all operands begin at multiples of 256 bytes, as storage does; parts of it need not

    friend auto operator<=>(const matmul_shape&, const matmul_shape&) = default;
};

class cublaslt {
public:
    cublaslt();
    cublaslt(const cublaslt&) = delete;  // it owns a handle
    cublaslt& operator=(const cublaslt&) = delete;
    ~cublaslt();

    // Every call needs this much scratch memory.
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

    // Enqueues on the stream; does not block. All pointers are device memory. Throws device_error.
    void multiply(const matmul_shape& shape, const float* a, const float* b, const float* bias, float* out,
                  void* workspace, cudaStream_t stream);

    cublasLtHandle_t handle() const noexcept { return handle_; }

private:
    struct plan;
    plan& plan_for(const matmul_shape& shape);

    cublasLtHandle_t handle_ = nullptr;
    std::mutex mutex_;
    std::map<matmul_shape, std::unique_ptr<plan>> plans_;
};

}  // namespace sluice::cuda
