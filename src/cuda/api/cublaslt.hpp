// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that Sluice calls, loaded at first use.
#pragma once

#include <cublasLt.h>

#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

struct cublaslt_functions {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtGetVersion) version;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
    decltype(&cublasLtMatmulDescCreate) create_operation;
    decltype(&cublasLtMatmulDescDestroy) destroy_operation;
    decltype(&cublasLtMatmulDescSetAttribute) set_operation;
    decltype(&cublasLtMatrixLayoutCreate) create_layout;
    decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
    decltype(&cublasLtMatmulPreferenceCreate) create_preference;
    decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
    decltype(&cublasLtGetStatusString) describe;

    // Opens the library on first use. Throws errc::unsupported.
    static const cublaslt_functions& get();
};

// Throws device_error for a status other than success.
void check(cublasStatus_t status, std::string_view call, const error_context& context = {});

}  // namespace sluice::cuda::api
