// SPDX-License-Identifier: Apache-2.0
// What kernels are compared with: plain loops in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sluice/kernels/activation.hpp"

namespace sluice::conformance {

using floats = std::vector<float>;
using doubles = std::vector<double>;

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

// Fresh numbers in [-1, 1), the same in every run.
class random_floats {
public:
    explicit random_floats(unsigned seed) : generator_(seed) {}
    floats operator()(std::size_t size, float scale = 1) {
        std::uniform_real_distribution<float> any(-scale, scale);
        floats made(size);
        for (float& each : made) each = any(generator_);
        return made;
    }

private:
    std::mt19937 generator_;
};

// a[rows, inner] * b, where b is [inner, columns], or [columns, inner] when transposed; plus bias if there is one.
inline doubles product(const floats& a, const floats& b, const floats& bias, std::size_t rows, std::size_t columns,
                       std::size_t inner, bool b_is_transposed) {
    doubles made(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) {
            double sum = bias.empty() ? 0 : bias[c];
            for (std::size_t k = 0; k < inner; ++k) {
                sum += double{a[r * inner + k]} * double{b_is_transposed ? b[c * inner + k] : b[k * columns + c]};
            }
            made[r * columns + c] = sum;
        }
    }
    return made;
}

inline void softmax_reference(doubles& x, std::size_t columns) {
    for (std::size_t first = 0; first < x.size(); first += columns) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::size_t i = first; i < first + columns; ++i) largest = std::fmax(largest, x[i]);
        for (std::size_t i = first; i < first + columns; ++i) sum += x[i] = std::exp(x[i] - largest);
        for (std::size_t i = first; i < first + columns; ++i) x[i] /= sum;
    }
}

inline doubles activated(doubles x, activation what, std::size_t columns) {
    if (what == activation::softmax) softmax_reference(x, columns);
    for (double& each : x) {
        switch (what) {
            case activation::relu: each = each < 0 ? 0 : each; break;
            case activation::gelu: each = 0.5 * each * (1 + std::erf(each / std::sqrt(2.0))); break;
            case activation::sigmoid: each = 1 / (1 + std::exp(-each)); break;
            case activation::tanh: each = std::tanh(each); break;
            case activation::none:
            case activation::softmax: break;
        }
    }
    return x;
}

// |got - expected| <= bound * |expected| in the Euclidean norm. An element that no thread wrote is NaN, and fails.
inline void expect_close(const floats& got, const doubles& expected, double bound = 1e-5) {
    ASSERT_EQ(got.size(), expected.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        difference += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    const double relative = std::sqrt(difference) / std::fmax(std::sqrt(norm), 1e-30);
    EXPECT_LE(got.empty() ? 0 : relative, bound);  // false for NaN
}

}  // namespace sluice::conformance
