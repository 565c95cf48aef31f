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

    for (std::size_t row = 0; row < call.rows; ++row) {
        float* const out = call.out + row * call.columns;
        if (call.bias != nullptr) {
            std::copy_n(call.bias, call.columns, out);
        } else {
            std::fill_n(out, call.columns, 0.0f);
        }
    }
    if (call.inner != 0) {
        const auto rows = static_cast<blasint>(call.rows);
        const auto columns = static_cast<blasint>(call.columns);
        const auto inner = static_cast<blasint>(call.inner);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, call.b_is_transposed ? CblasTrans : CblasNoTrans, rows, columns, inner,
                    1.0f, call.a, inner, call.b, call.b_is_transposed ? inner : columns, 1.0f, call.out, columns);
    }
    if (call.after == activation::relu) {
        for (std::size_t i = 0; i < call.rows * call.columns; ++i) call.out[i] = call.out[i] < 0 ? 0 : call.out[i];
    }
}

}  // namespace sluice::kernels
