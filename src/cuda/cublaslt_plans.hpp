// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt on one GPU. The algorithm for each shape is queried once and cached.
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

// The element type and the arithmetic. tf32: float elements, rounded to tf32 for the products. Sums are float.
enum class matmul_type : unsigned char { f32, tf32, f16, bf16 };

// out[rows, columns] = a[rows, inner] * b, plus bias[columns] in each row. All matrices are row-major and of one type.
// The library's ReLU is not used: for some numbers of rows it turns NaN into 0.
struct matmul_shape {
    matmul_type type = matmul_type::f32;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t inner = 0;
    bool b_is_transposed = false;  // b is [columns, inner], as a PyTorch Linear stores it; otherwise [inner, columns]
    bool has_bias = false;
    unsigned char proposal = 0;  // index into cuBLASLt's list of algorithms, which it orders best first
    bool is_aligned = true;  // all operands begin at multiples of 256 bytes, as storage does; views of parts may not

    friend auto operator<=>(const matmul_shape&, const matmul_shape&) = default;
};

class cublaslt {
public:
    cublaslt();
    cublaslt(const cublaslt&) = delete;  // it owns a handle
    cublaslt& operator=(const cublaslt&) = delete;
    ~cublaslt();

    // The scratch memory that every call needs.
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

    // Enqueues on the stream; does not block. All pointers are device memory. Throws device_error, and
    // errc::unsupported when there is no such algorithm.
    void multiply(const matmul_shape& shape, const void* a, const void* b, const void* bias, void* out, void* workspace,
                  cudaStream_t stream);
    // Whether cuBLASLt has such an algorithm.
    bool supports(const matmul_shape& shape);
    // The version of the cuBLASLt library.
    static std::size_t version();

    cublasLtHandle_t handle() const noexcept { return handle_; }

private:
    struct plan;
    plan& plan_for(const matmul_shape& shape);  // with the lock held

    cublasLtHandle_t handle_ = nullptr;
    std::mutex mutex_;
    std::map<matmul_shape, std::unique_ptr<plan>> plans_;
};

}  // namespace sluice::cuda
