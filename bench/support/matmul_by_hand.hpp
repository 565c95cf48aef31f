// SPDX-License-Identifier: Apache-2.0
// Hand-written calls of cuBLASLt: out = after(a * b^T + bias) in f16 or bf16 with float sums, using the fastest of its
// proposed algorithms, timed once.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "cuda/api/cublaslt.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"

namespace sluice::bench {

class matmul_by_hand {
public:
    // a [rows, inner], b [columns, inner], bias [columns] of the same type, or null.
    matmul_by_hand(cudaDataType_t type, std::size_t rows, std::size_t columns, std::size_t inner, const void* bias,
                   bool relu)
        : workspace_(make_device<unsigned char>(workspace_bytes)) {
        check_lt(lt().create(&handle_));
        check_lt(lt().create_operation(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
        const cublasLtEpilogue_t epilogue = bias != nullptr
                                                ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                            : relu ? CUBLASLT_EPILOGUE_RELU
                                                   : CUBLASLT_EPILOGUE_DEFAULT;
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
        if (bias != nullptr) {
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
        }
        // Column-major, so out^T = b * a^T over the same bytes.
        check_lt(lt().create_layout(&left_, type, inner, columns, static_cast<std::int64_t>(inner)));
        check_lt(lt().create_layout(&right_, type, inner, rows, static_cast<std::int64_t>(inner)));
        check_lt(lt().create_layout(&result_, type, columns, rows, static_cast<std::int64_t>(columns)));
    }
    matmul_by_hand(const matmul_by_hand&) = delete;  // it owns handles
    matmul_by_hand& operator=(const matmul_by_hand&) = delete;
    ~matmul_by_hand() {
        static_cast<void>(lt().destroy_layout(left_));
        static_cast<void>(lt().destroy_layout(right_));
        static_cast<void>(lt().destroy_layout(result_));
        static_cast<void>(lt().destroy_operation(operation_));
        static_cast<void>(lt().destroy(handle_));
    }

    // Times the proposals on these operands and keeps the fastest.
    void choose(const void* a, const void* b, void* out, cudaStream_t on, int proposals = 8) {
        cublasLtMatmulPreference_t preference = nullptr;
        check_lt(lt().create_preference(&preference));
        const std::size_t bytes = workspace_bytes;
        check_lt(lt().set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)));
        std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(proposals));
        int count = 0;
        check_lt(lt().find_algorithm(handle_, operation_, left_, right_, result_, result_, preference, proposals,
                                     found.data(), &count));
        check_lt(lt().destroy_preference(preference));
        double best = 1e30;
        cublasLtMatmulAlgo_t fastest = found.at(0).algo;
        for (int i = 0; i < count; ++i) {
            algorithm_ = found[static_cast<std::size_t>(i)].algo;
            const double time = device_medians(on, {[&] { run(a, b, out, on); }}, 5, 3).front();
            if (time < best) {
                best = time;
                fastest = algorithm_;
            }
        }
        algorithm_ = fastest;
    }

    void run(const void* a, const void* b, void* out, cudaStream_t on) {
        const float one = 1, zero = 0;
        check_lt(lt().matmul(handle_, operation_, &one, b, left_, a, right_, &zero, out, result_, out, result_,
                             &algorithm_, workspace_.get(), workspace_bytes, on));
    }

private:
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
    static const cuda::api::cublaslt_functions& lt() { return cuda::api::cublaslt_functions::get(); }
    static void check_lt(cublasStatus_t status) { cuda::api::check(status, "cuBLASLt"); }
    template <typename T>
    void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
        check_lt(lt().set_operation(operation_, attribute, &value, sizeof(value)));
    }

    device_array<unsigned char> workspace_;
    cublasLtHandle_t handle_ = nullptr;
    cublasLtMatmulDesc_t operation_ = nullptr;
    cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
    cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace sluice::bench
