// SPDX-License-Identifier: Apache-2.0
// Activations of products' sums in registers. GELU has a form of its own: erff would take longer than the products of
// a short inner dimension.
#pragma once

#include "kernels/gemm/accumulators.cuh"

namespace sluice::kernels {

// GELU, x * P(x), where P is the distribution function of a normal number, here within 2e-7: its smaller side is a
// polynomial times exp(-x * x / 2) (Abramowitz and Stegun, 7.1.26), so that the results of negative numbers are not
// differences of nearly equal ones.
__device__ inline float fast_gelu(float x) {
    constexpr float root_of_half = 0.70710678f, log2_e = 1.44269504f;
    float t, tail;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.3275911f * root_of_half, fabsf(x), 1.0f)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(x * x * (-0.5f * log2_e)));
    float sum = fmaf(0.5f * 1.061405429f, t, 0.5f * -1.453152027f);
    sum = fmaf(sum, t, 0.5f * 1.421413741f);
    sum = fmaf(sum, t, 0.5f * -0.284496736f);
    sum = fmaf(sum, t, 0.5f * 0.254829592f);
    tail *= sum * t;
    return x * (x < 0 ? tail : 1.0f - tail);
}

template <int Blocks>
__device__ inline void activate_sums(float (&d)[Blocks][4], activation what) {
    if (what == activation::gelu) return apply(d, fast_gelu);
    activate_registers(d, what);
}

}  // namespace sluice::kernels
