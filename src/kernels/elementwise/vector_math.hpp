// SPDX-License-Identifier: Apache-2.0
// vector_math: exp, log, sine and the like of many f32 numbers, and the softmax of a row, by a CPU's vector units.
//
//     vector_math_of_this_processor().exponential(x, y, count);
//
// An element's result depends on that element alone, not on where it is. It differs from the exact one by at most 1 ulp
// (exp), 1.4 (tanh, erf), 1.6 (sigmoid) and 0.6 (the others, which are computed in f64), and of gelu, where 1 + erf
// cancels, by 2e-7 of the input; tests/kernels/vector_math_tests.cpp tries them. NaN stays NaN, infinities give limits.
// Units differ in the last bit: one rounds a product before it is added, another does not.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::kernels {

struct vector_math {
    // y may be x.
    using function = void (*)(const float* x, float* y, std::size_t count) noexcept;

    function exponential, sigmoid, hyperbolic_tangent, error_function, gelu;
    // In place, of a row that is not empty: exp(x - largest) over their sum, which carries its rounding errors along.
    void (*softmax)(float* x, std::size_t count) noexcept;
    function logarithm, softplus, sine, cosine, arctangent;
    // exp of f64 numbers, off by at most 1e-11 of the result where it is a normal number. y may be x.
    void (*wide_exponential)(const double* x, double* y, std::size_t count) noexcept;
    // y[i] = a[i] to the power of b[i], as pow of the standard library has it for zeros, infinities and NaN.
    void (*power)(const float* a, const float* b, float* y, std::size_t count) noexcept;
};

extern const vector_math vector_math_baseline, vector_math_avx2, vector_math_avx512;

// Those that this processor can run, the best one first.
std::vector<const vector_math*> known_vector_math();
// The best one.
const vector_math& vector_math_of_this_processor();

}  // namespace sluice::kernels
