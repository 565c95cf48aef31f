#include "cuda/cublaslt.hpp"

#include <cstdint>
#include <string>

namespace sluice::cuda {
namespace {

using api::check;
using api::cublaslt_functions;

struct destroy_operation {
    void operator()(cublasLtMatmulDescOpaque_t* d) const noexcept {
        static_cast<void>(cublaslt_functions::get().destroy_operation(d));
    }
};
struct destroy_layout {
    void operator()(cublasLtMatrixLayoutOpaque_t* d) const noexcept {
        static_cast<void>(cublaslt_functions::get().destroy_layout(d));
    }
};
struct destroy_preference {
    void operator()(cublasLtMatmulPreferenceOpaque_t* d) const noexcept {
        static_cast<void>(cublaslt_functions::get().destroy_preference(d));
    }
};
using operation_handle = std::unique_ptr<cublasLtMatmulDescOpaque_t, destroy_operation>;
using layout_handle = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, destroy_layout>;
using preference_handle = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, destroy_preference>;

operation_handle make_operation() {
    cublasLtMatmulDesc_t made = nullptr;
    // Plain f32 arithmetic: results agree with the trainer's, which tf32 would not.
    check(cublaslt_functions::get().create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    return operation_handle(made);
}

layout_handle make_layout(std::size_t rows, std::size_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublaslt_functions::get().create_layout(&made, CUDA_R_32F, rows, columns, static_cast<int64_t>(rows)),
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
    operation_handle operation = make_operation();
    layout_handle left;
    layout_handle right;
    layout_handle result;
    cublasLtMatmulAlgo_t algorithm{};
    const float* bias = nullptr;
};

cublaslt::cublaslt() { check(cublaslt_functions::get().create(&handle_), "cublasLtCreate"); }

cublaslt::~cublaslt() { static_cast<void>(cublaslt_functions::get().destroy(handle_)); }

cublaslt::plan& cublaslt::plan_for(const matmul_shape& shape) {
    const auto known = plans_.find(shape);
    if (known != plans_.end()) return *known->second;

    const auto& api = cublaslt_functions::get();
    auto made = std::make_unique<plan>();
    set(made->operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, shape.b_is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const cublasLtEpilogue_t epilogue = shape.has_bias
                                            ? shape.has_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                        : shape.has_relu ? CUBLASLT_EPILOGUE_RELU
                                                         : CUBLASLT_EPILOGUE_DEFAULT;
    set(made->operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    made->left =
        shape.b_is_transposed ? make_layout(shape.inner, shape.columns) : make_layout(shape.columns, shape.inner);
    made->right = make_layout(shape.inner, shape.rows);
    made->result = make_layout(shape.columns, shape.rows);

    cublasLtMatmulPreference_t raw = nullptr;
    check(api.create_preference(&raw), "cublasLtMatmulPreferenceCreate");
    const preference_handle preference(raw);
    const std::size_t workspace = workspace_bytes;
    check(api.set_preference(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
          "cublasLtMatmulPreferenceSetAttribute");
    if (!shape.is_aligned) {
        const std::uint32_t alignment = sizeof(float);  // bytes
        for (const auto of : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
            check(api.set_preference(raw, of, &alignment, sizeof(alignment)), "cublasLtMatmulPreferenceSetAttribute");
        }
    }
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check(api.find_algorithm(handle_, made->operation.get(), made->left.get(), made->right.get(), made->result.get(),
                             made->result.get(), raw, 1, &best, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
        throw error(errc::unsupported, "cuBLASLt has no algorithm for a product of " + std::to_string(shape.rows) +
                                           " x " + std::to_string(shape.inner) + " x " + std::to_string(shape.columns));
    }
    made->algorithm = best.algo;
    return *plans_.emplace(shape, std::move(made)).first->second;
}

void cublaslt::multiply(const matmul_shape& shape, const float* a, const float* b, const float* bias, float* out,
                        void* workspace, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);  // the plan holds the bias pointer of the call under way
    plan& with = plan_for(shape);
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
