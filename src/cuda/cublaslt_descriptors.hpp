// SPDX-License-Identifier: Apache-2.0
// Owners of cuBLASLt's descriptors.
#pragma once

#include <memory>

#include "cuda/api/cublaslt.hpp"

namespace sluice::cuda {

struct destroy_matmul_operation {
    void operator()(cublasLtMatmulDescOpaque_t* d) const noexcept {
        static_cast<void>(api::cublaslt_functions::get().destroy_operation(d));
    }
};
struct destroy_matrix_layout {
    void operator()(cublasLtMatrixLayoutOpaque_t* d) const noexcept {
        static_cast<void>(api::cublaslt_functions::get().destroy_layout(d));
    }
};
struct destroy_matmul_preference {
    void operator()(cublasLtMatmulPreferenceOpaque_t* d) const noexcept {
        static_cast<void>(api::cublaslt_functions::get().destroy_preference(d));
    }
};
using operation_handle = std::unique_ptr<cublasLtMatmulDescOpaque_t, destroy_matmul_operation>;
using layout_handle = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, destroy_matrix_layout>;
using preference_handle = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, destroy_matmul_preference>;

}  // namespace sluice::cuda
