// gemm on a CPU by OpenBLAS, where oneDNN is not packaged.
#include <cblas.h>

#include <algorithm>
#include <mutex>

#include "kernels/gemm_bodies.hpp"

namespace sluice::kernels {

bool gemm_on_cpu_fuses(activation what) noexcept { return what == activation::none || what == activation::relu; }

void gemm_on_cpu(const gemm_call& call) {
    // Our workers are the parallelism: a product uses the thread that it runs on.
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });

    const gemm_problem& of = call.problem;
    const auto* const bias = static_cast<const float*>(call.bias);
    auto* const result = static_cast<float*>(call.out);
    for (std::size_t row = 0; row < of.rows; ++row) {
        float* const out = result + row * of.columns;
        if (bias != nullptr) {
            std::copy_n(bias, of.columns, out);
        } else {
            std::fill_n(out, of.columns, 0.0f);
        }
    }
    if (of.inner != 0) {
        const auto rows = static_cast<blasint>(of.rows);
        const auto columns = static_cast<blasint>(of.columns);
        const auto inner = static_cast<blasint>(of.inner);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, of.b_is_transposed ? CblasTrans : CblasNoTrans, rows, columns, inner,
                    1.0f, static_cast<const float*>(call.a), inner, static_cast<const float*>(call.b),
                    of.b_is_transposed ? inner : columns, 1.0f, result, columns);
    }
    if (call.after == activation::relu) {
        for (std::size_t i = 0; i < of.rows * of.columns; ++i) result[i] = result[i] < 0 ? 0 : result[i];
    }
}

}  // namespace sluice::kernels
