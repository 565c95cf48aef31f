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

// Elements, and how they are multiplied: tf32 is float, rounded; sums are float.
enum class matmul_type : unsigned char { f32, tf32, f16, bf16 };

// out[rows, columns] = a[rows, inner] * b, plus bias[columns] to each row, then ReLU. All row-major and of one type.
struct matmul_shape {
    matmul_type type = matmul_type::f32;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t inner = 0;
    bool b_is_transposed = false;  // b is [columns, inner], as a PyTorch Linear keeps it; else [inner, columns]
    bool has_bias = false;
    bool has_relu = false;
    unsigned char proposal = 0;  // which of the algorithms that cuBLASLt proposes, best first by its own judgement
    bool is_aligned = true;      // all operands begin at multiples of 256 bytes, as storage does; parts of it need not

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

    // Enqueues on the stream; does not block. All pointers are device memory. Throws device_error, and
    // errc::unsupported when there is no such proposal.
    void multiply(const matmul_shape& shape, const void* a, const void* b, const void* bias, void* out, void* workspace,
                  cudaStream_t stream);
    // Whether there is such a proposal.
    bool supports(const matmul_shape& shape);
    // The library's own.
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
