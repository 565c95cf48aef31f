// SPDX-License-Identifier: Apache-2.0
// The activations of many numbers, for a file that is compiled for one kind of vector unit. What is said in
// vector_math_loops.hpp holds here.
#pragma once

#include <cstddef>

#include "kernels/elementwise/vector_math_loops.hpp"
#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {
namespace {

// In place, rows of `columns` numbers, each `stride` after the one before. Relu is what products do themselves, and
// softmax is no function of one number: both change nothing.
void activate_rows(float* x, std::size_t stride, std::size_t rows, std::size_t columns, activation what) {
    vector_math::function all = nullptr;
    switch (what) {
        case activation::none:
        case activation::relu:
        case activation::softmax: return;
        case activation::gelu: all = &over<gelu_lane>; break;
        case activation::sigmoid: all = &over<sigmoid_lane>; break;
        case activation::tanh: all = &over<tangent_lane>; break;
    }
    if (stride == columns) return all(x, x, rows * columns);
    for (std::size_t r = 0; r < rows; ++r) all(x + r * stride, x + r * stride, columns);
}

}  // namespace
}  // namespace sluice::kernels
