// SPDX-License-Identifier: Apache-2.0
// gemm on a CPU by OpenBLAS, where oneDNN is not packaged.
#include <cblas.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>

#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {

namespace {

// OpenBLAS may count in 32 bits.
constexpr std::size_t most_rows = std::size_t{1} << 30;

blasint counted(std::size_t size) {
    if (size <= static_cast<std::size_t>(std::numeric_limits<blasint>::max())) return static_cast<blasint>(size);
    throw device_error(make_error_code(errc::device_failed),
                       "OpenBLAS multiplies matrices of at most " +
                           std::to_string(std::numeric_limits<blasint>::max()) + " columns, not " +
                           std::to_string(size),
                       {"gemm", "cpu"});
}

}  // namespace

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
    const blasint columns = counted(of.columns), inner = counted(of.inner);
    for (std::size_t first = 0; first < of.rows; first += most_rows) {
        const auto rows = static_cast<blasint>(std::min(most_rows, of.rows - first));
        cblas_sgemm(CblasRowMajor, CblasNoTrans, of.b_is_transposed ? CblasTrans : CblasNoTrans, rows, columns, inner,
                    1.0f, static_cast<const float*>(call.a) + first * of.inner, inner,
                    static_cast<const float*>(call.b), of.b_is_transposed ? inner : columns, 1.0f,
                    result + first * of.columns, columns);
    }
    activate_on_cpu({result, of.rows * of.columns}, call.after);
}

}  // namespace sluice::kernels
