// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/cublaslt.hpp"

#include <cuda_runtime_api.h>

#include "cuda/api/shared_library.hpp"

namespace sluice::cuda::api {
namespace {

cublaslt_functions load_cublaslt() {
    const shared_library library("cublasLt", CUDART_VERSION / 1000);
    cublaslt_functions all{};
    library.find(all.create, "cublasLtCreate");
    library.find(all.version, "cublasLtGetVersion");
    library.find(all.destroy, "cublasLtDestroy");
    library.find(all.matmul, "cublasLtMatmul");
    library.find(all.find_algorithm, "cublasLtMatmulAlgoGetHeuristic");
    library.find(all.create_operation, "cublasLtMatmulDescCreate");
    library.find(all.destroy_operation, "cublasLtMatmulDescDestroy");
    library.find(all.set_operation, "cublasLtMatmulDescSetAttribute");
    library.find(all.create_layout, "cublasLtMatrixLayoutCreate");
    library.find(all.destroy_layout, "cublasLtMatrixLayoutDestroy");
    library.find(all.create_preference, "cublasLtMatmulPreferenceCreate");
    library.find(all.destroy_preference, "cublasLtMatmulPreferenceDestroy");
    library.find(all.set_preference, "cublasLtMatmulPreferenceSetAttribute");
    library.find(all.describe, "cublasLtGetStatusString");
    return all;
}

class cublas_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "cublas"; }
    // cuBLAS itself uses cuBLASLt, so an error exists only where the library can be opened.
    std::string message(int code) const override {
        const char* const text = cublaslt_functions::get().describe(static_cast<cublasStatus_t>(code));
        return text + (" (status " + std::to_string(code) + ")");
    }
};

}  // namespace

const cublaslt_functions& cublaslt_functions::get() {
    static const cublaslt_functions all = load_cublaslt();
    return all;
}

void check(cublasStatus_t status, std::string_view call, const error_context& context) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    static const cublas_category category;
    throw device_error({static_cast<int>(status), category}, std::string(call) + " failed", context);
}

}  // namespace sluice::cuda::api
