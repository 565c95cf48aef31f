// SPDX-License-Identifier: Apache-2.0
// What tests of operators use whose f32 has a way of its own on a CPU: a device with one worker and with three, numbers
// at random, and the same node in f64, which is computed element by element.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::test_support {

using lengths = std::vector<std::size_t>;

inline std::size_t product(const lengths& shape) {
    std::size_t made = 1;
    for (const std::size_t each : shape) made *= each;
    return made;
}

class operator_families : public ::testing::TestWithParam<std::size_t> {
protected:
    // From `low` to `high`, both included.
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    bool maybe() { return any(0, 1) == 1; }
    any_tensor normal(lengths shape) {
        std::normal_distribution<float> one;
        std::vector<float> made(product(shape));
        for (float& each : made) each = one(numbers_);
        return any_tensor(made, std::move(shape));
    }

    // Some of its numbers are NaN, infinite or -0. Of their magnitudes if `is_positive`.
    any_tensor with_odd(const any_tensor& from, bool is_positive) {
        std::vector<float> values(from.values<float>().begin(), from.values<float>().end());
        const float infinity = std::numeric_limits<float>::infinity();
        const float odd[] = {std::nanf(""), infinity, -infinity, -0.0f};
        for (float& each : values) {
            if (any(0, 400) == 0) each = odd[any(0, 3)];
            if (is_positive) each = std::fabs(each);
        }
        return any_tensor(values, from.shape());
    }
    static any_tensor normal_one() { return any_tensor(std::vector<float>{1.25f}, {1}); }

    static any_tensor in_f64(const any_tensor& from) {
        if (!from || from.type() != io::dtype::f32) return from;
        const auto values = from.values<float>();
        return any_tensor(std::vector<double>(values.begin(), values.end()), from.shape());
    }

    // Each output is that of f64 but for `tolerance`, or where numbers are larger than 1 that part of the largest if
    // `is_relative`; and is NaN or infinite where that is.
    void expect_as_in_f64(const single_node& what, double tolerance, bool is_relative = false) {
        single_node exact = what;
        for (any_tensor& each : exact.inputs) each = in_f64(each);
        const auto made = run_node(what, on_), expected = run_node(exact, on_);
        ASSERT_EQ(made.size(), expected.size());
        double size = 1;
        for (const any_tensor& each : expected) {
            for (const double one : each.values<double>())
                if (is_relative && std::isfinite(one)) size = std::fmax(size, std::fabs(one));
        }
        for (std::size_t k = 0; k < made.size(); ++k) {
            ASSERT_EQ(made[k].shape(), expected[k].shape());
            const auto a = made[k].values<float>();
            const auto b = expected[k].values<double>();
            for (std::size_t i = 0; i < a.size(); ++i) {
                if (std::isfinite(b[i])) {
                    ASSERT_NEAR(a[i], b[i], tolerance * size) << "output " << k << ", element " << i;
                } else {
                    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << "output " << k << ", element " << i;
                    if (std::isnan(b[i])) continue;
                    ASSERT_EQ(static_cast<double>(a[i]), b[i]);
                }
            }
        }
    }

    std::mt19937 numbers_{7};
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = GetParam(), .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

}  // namespace sluice::nn::test_support
