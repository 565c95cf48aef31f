// SPDX-License-Identifier: Apache-2.0
#include "cuda/pixel_products.hpp"

#include <cstdint>

#include "cuda/api/runtime.hpp"
#include "cuda/cublaslt_descriptors.hpp"
#include "cuda/cublaslt_plans.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::cuda {
namespace {

using api::check;
using api::cublaslt_functions;

template <typename T>
void set_attribute(const operation_handle& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublaslt_functions::get().set_operation(operation.get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
}

// cuBLASLt is column-major: its result is our [rows, columns], read as [columns, rows]; its left operand is the
// filter, transposed.
struct product {
    operation_handle operation;
    layout_handle filter, x, addend, out;

    explicit product(const pixel_product& of) {
        const auto& api = cublaslt_functions::get();
        const cudaDataType_t type = of.is_bf16 ? CUDA_R_16BF : CUDA_R_16F;
        cublasLtMatmulDesc_t made = nullptr;
        check(api.create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
        operation.reset(made);
        set_attribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
        set_attribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                      of.has_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
        set_attribute(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
        const auto layout = [&](std::size_t rows, std::size_t columns, std::size_t step) {
            cublasLtMatrixLayout_t one = nullptr;
            check(api.create_layout(&one, type, rows, columns, static_cast<std::int64_t>(step)),
                  "cublasLtMatrixLayoutCreate");
            return layout_handle(one);
        };
        filter = layout(of.inner, of.columns, of.inner);
        x = layout(of.inner, of.rows, of.x_pixel);
        out = layout(of.columns, of.rows, of.out_pixel);
        addend = layout(of.columns, of.rows, of.has_addend ? of.addend_pixel : of.out_pixel);
    }
};

}  // namespace

class pixel_products::plan {
public:
    pixel_product of;
    cublasLtMatmulAlgo_t algorithm;
};

pixel_products::pixel_products(device_context& of) : of_(of) { static_cast<void>(of.matmul()); }

auto pixel_products::plans(const pixel_product& of, std::size_t most) const
    -> std::vector<std::shared_ptr<const plan>> {
    const auto& api = cublaslt_functions::get();
    const api::device_scope scope(of_.ordinal());
    const product made(of);
    cublasLtMatmulPreference_t raw = nullptr;
    check(api.create_preference(&raw), "cublasLtMatmulPreferenceCreate");
    const preference_handle preference(raw);
    const std::size_t workspace = workspace_bytes;
    check(api.set_preference(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
          "cublasLtMatmulPreferenceSetAttribute");
    const auto alignment = static_cast<std::uint32_t>(of.alignment);
    for (const auto each : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        check(api.set_preference(raw, each, &alignment, sizeof(alignment)), "cublasLtMatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(most);
    int found = 0;
    const cublasStatus_t status = api.find_algorithm(
        reinterpret_cast<cublasLtHandle_t>(of_.cublaslt_handle()), made.operation.get(), made.filter.get(),
        made.x.get(), made.addend.get(), made.out.get(), raw, static_cast<int>(most), proposals.data(), &found);
    std::vector<std::shared_ptr<const plan>> all;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return all;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < found; ++i) {
        const auto& each = proposals[static_cast<std::size_t>(i)];
        if (each.state != CUBLAS_STATUS_SUCCESS) continue;
        all.push_back(std::make_shared<const plan>(plan{of, each.algo}));
    }
    return all;
}

void pixel_products::run(const plan& with, const pixel_operands& on, void* workspace, CUstream_st* stream) const {
    const product made(with.of);
    set_attribute(made.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, on.bias);
    const float one = 1, zero = 0;
    check(cublaslt_functions::get().matmul(reinterpret_cast<cublasLtHandle_t>(of_.cublaslt_handle()),
                                           made.operation.get(), &one, on.filter, made.filter.get(), on.x, made.x.get(),
                                           with.of.has_addend ? &one : &zero, with.of.has_addend ? on.addend : on.out,
                                           made.addend.get(), on.out, made.out.get(), &with.algorithm, workspace,
                                           workspace_bytes, stream),
          "cublasLtMatmul", {"convolution"});
}

}  // namespace sluice::cuda
