// SPDX-License-Identifier: Apache-2.0
// Plain kernels, written once for the CPU and the GPU: references for faster ones, and examples of how a
// kernel is written. To be launched with launch(...), in a file compiled by nvcc where a GPU is to run them.
#pragma once

#include <cstddef>

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/runtime/view.hpp"

namespace sluice::kernels {

// c = alpha * a * b + beta * c; a is [rows, inner], b is [inner, columns]. One index makes one element of c, which
// costs O(inner).
struct sgemm_naive {
    SLUICE_KERNEL void operator()(index_2d at, float alpha, matrix_view<const float> a, matrix_view<const float> b,
                                  float beta, disjoint_matrix<float> c) const {
        float* const element = c.at(at);
        if (element == nullptr) return;
        float sum = 0;
        for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.row(), k) * b(k, at.column());
        *element = alpha * sum + beta * *element;
    }
};

// y = a * x; a is [rows, columns]. One index makes one element of y, which costs O(columns).
struct matvec_naive {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const float> a, view<const float> x,
                                  disjoint_view<float> y) const {
        float* const element = y.at(at);
        if (element == nullptr) return;
        float sum = 0;
        for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.value(), k) * x[k];
        *element = sum;
    }
};

// x = max(x, 0), in place; NaN stays NaN. Each index costs O(1).
struct relu {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element = activated<activation::relu>(*element);
    }
};

}  // namespace sluice::kernels
