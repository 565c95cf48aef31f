// SPDX-License-Identifier: Apache-2.0
#include "cuda/cublaslt_plans.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cublaslt_descriptors.hpp"

namespace sluice::cuda {
namespace {

using api::check;
using api::cublaslt_functions;

cudaDataType_t element_of(matmul_type type) {
    switch (type) {
        case matmul_type::f16: return CUDA_R_16F;
        case matmul_type::bf16: return CUDA_R_16BF;
        case matmul_type::f32:
        case matmul_type::tf32: break;
    }
    return CUDA_R_32F;
}

operation_handle make_operation(matmul_type type) {
    cublasLtMatmulDesc_t made = nullptr;
    // Plain f32 arithmetic unless tf32 is requested: f32 results agree with the trainer's, tf32 results would not.
    const auto arithmetic = type == matmul_type::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublaslt_functions::get().create_operation(&made, arithmetic, CUDA_R_32F), "cublasLtMatmulDescCreate");
    return operation_handle(made);
}

layout_handle make_layout(matmul_type type, std::size_t rows, std::size_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublaslt_functions::get().create_layout(&made, element_of(type), rows, columns, static_cast<int64_t>(rows)),
          "cublasLtMatrixLayoutCreate");
    return layout_handle(made);
}

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublaslt_functions::get().set_operation(operation, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
}

}  // namespace

// cuBLASLt is column-major: our row-major out = a * b is its out^T = b^T * a^T, over the same bytes. So its
// left operand is our b, and its rows are our columns.
struct cublaslt::plan {
    operation_handle operation;
    layout_handle left;
    layout_handle right;
    layout_handle result;
    cublasLtMatmulAlgo_t algorithm{};
    const void* bias = nullptr;
    bool exists = false;
};

cublaslt::cublaslt() { check(cublaslt_functions::get().create(&handle_), "cublasLtCreate"); }

cublaslt::~cublaslt() { static_cast<void>(cublaslt_functions::get().destroy(handle_)); }

cublaslt::plan& cublaslt::plan_for(const matmul_shape& shape) {
    const auto known = plans_.find(shape);
    if (known != plans_.end()) return *known->second;

    const auto& api = cublaslt_functions::get();
    auto made = std::make_unique<plan>();
    made->operation = make_operation(shape.type);
    set(made->operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, shape.b_is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const cublasLtEpilogue_t epilogue = shape.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    set(made->operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (shape.has_bias) set(made->operation.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, element_of(shape.type));
    made->left = shape.b_is_transposed ? make_layout(shape.type, shape.inner, shape.columns)
                                       : make_layout(shape.type, shape.columns, shape.inner);
    made->right = make_layout(shape.type, shape.inner, shape.rows);
    made->result = make_layout(shape.type, shape.columns, shape.rows);

    cublasLtMatmulPreference_t raw = nullptr;
    check(api.create_preference(&raw), "cublasLtMatmulPreferenceCreate");
    const preference_handle preference(raw);
    const std::size_t workspace = workspace_bytes;
    check(api.set_preference(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
          "cublasLtMatmulPreferenceSetAttribute");
    if (!shape.is_aligned) {
        const bool is_short = shape.type == matmul_type::f16 || shape.type == matmul_type::bf16;
        const std::uint32_t alignment = is_short ? 2 : 4;  // bytes
        for (const auto of : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
            check(api.set_preference(raw, of, &alignment, sizeof(alignment)), "cublasLtMatmulPreferenceSetAttribute");
        }
    }
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(std::size_t{shape.proposal} + 1);
    int found = 0;
    const cublasStatus_t status =
        api.find_algorithm(handle_, made->operation.get(), made->left.get(), made->right.get(), made->result.get(),
                           made->result.get(), raw, static_cast<int>(proposals.size()), proposals.data(), &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
    made->exists = found > shape.proposal && proposals.back().state == CUBLAS_STATUS_SUCCESS;
    made->algorithm = proposals.back().algo;
    return *plans_.emplace(shape, std::move(made)).first->second;
}

bool cublaslt::supports(const matmul_shape& shape) {
    const std::lock_guard lock(mutex_);
    return plan_for(shape).exists;
}

std::size_t cublaslt::version() { return cublaslt_functions::get().version(); }

void cublaslt::multiply(const matmul_shape& shape, const void* a, const void* b, const void* bias, void* out,
                        void* workspace, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);  // the plan holds the bias pointer of the current call
    plan& with = plan_for(shape);
    if (!with.exists) {
        throw error(errc::unsupported, "cuBLASLt has no algorithm for a product of " + std::to_string(shape.rows) +
                                           " x " + std::to_string(shape.inner) + " x " + std::to_string(shape.columns));
    }
    if (with.bias != bias) {
        set(with.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        with.bias = bias;
    }
    const float one = 1;
    const float zero = 0;
    check(cublaslt_functions::get().matmul(handle_, with.operation.get(), &one, b, with.left.get(), a, with.right.get(),
                                           &zero, out, with.result.get(), out, with.result.get(), &with.algorithm,
                                           workspace, workspace_bytes, stream),
          "cublasLtMatmul", {"gemm"});
}

}  // namespace sluice::cuda
