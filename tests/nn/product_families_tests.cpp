// SPDX-License-Identifier: Apache-2.0
// Batches of products of small f32 matrices on a CPU: any shapes and strides, with special values, against the same
// node in f64, which is computed element by element; and the loops of each vector unit against each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/product_loops.hpp"
#include "nn/support/single_nodes.hpp"

namespace sluice::nn::product_families_tests {
namespace {

using namespace test_support;
using operators::known_product_loops;
using operators::product_loops;
using operators::product_panel;
using lengths = std::vector<std::size_t>;

class product_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    std::vector<float> numbers(std::size_t count, bool is_special = false) {
        std::normal_distribution<float> one;
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers_);
        if (is_special && count != 0)
            for (const float each : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
                made[any(0, count - 1)] = each;
        return made;
    }
    static std::size_t product(const lengths& shape) {
        std::size_t made = 1;
        for (const std::size_t each : shape) made *= each;
        return made;
    }
    void expect_as_in_f64(const std::string& op, const lengths& a, const lengths& b, const attributes& with) {
        const bool is_special = any(0, 4) == 0;
        const std::vector<float> x = numbers(product(a), is_special), y = numbers(product(b), is_special);
        const auto wide = [](const std::vector<float>& from, const lengths& shape) {
            return any_tensor(std::vector<double>(from.begin(), from.end()), shape);
        };
        const auto made = run_node({op, {any_tensor(x, a), any_tensor(y, b)}, with}, on_),
                   expected = run_node({op, {wide(x, a), wide(y, b)}, with}, on_);
        ASSERT_EQ(made[0].shape(), expected[0].shape());
        const auto got = made[0].values<float>();
        const auto exact = expected[0].values<double>();
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (std::isnan(exact[i]) || std::isinf(exact[i])) {
                ASSERT_TRUE(std::isnan(exact[i]) ? std::isnan(got[i]) : static_cast<double>(got[i]) == exact[i]) << i;
            } else {
                ASSERT_NEAR(static_cast<double>(got[i]), exact[i], 1e-4) << i;
            }
        }
    }

    std::minstd_rand numbers_{7};
    runtime machine_{runtime_options{.cuda = false}};
    round_robin on_{machine_.find("cpu:0"), 1};
};

}  // namespace

TEST_F(product_families, batches_are_as_in_f64) {
    for (int i = 0; i < 150; ++i) {
        const std::size_t rows = any(1, 70), inner = any(0, 9) == 0 ? any(250, 600) : any(1, 70), columns = any(1, 70);
        lengths a{any(1, 3), any(1, 3), rows, inner}, b{a[0], a[1], inner, columns};
        if (any(0, 2) == 0) a[0] = 1;  // is repeated
        if (any(0, 2) == 0) b[1] = 1;
        if (any(0, 3) == 0) a.erase(a.begin());
        SCOPED_TRACE(std::to_string(i));
        ASSERT_NO_FATAL_FAILURE(expect_as_in_f64("MatMul", a, b, {}));
    }
}

TEST_F(product_families, any_strides_are_as_in_f64) {
    for (int i = 0; i < 120; ++i) {
        const std::size_t n = any(1, 3), h = any(1, 3), r = any(1, 50), k = any(1, 300), c = any(1, 50);
        const std::vector<std::pair<std::string, std::pair<lengths, lengths>>> cases{
            {"nhrk,nhck->nhrc", {{n, h, r, k}, {n, h, c, k}}},
            {"nrhk,nchk->nhrc", {{n, r, h, k}, {n, c, h, k}}},
            {"nhrk,nkhc->nrhc", {{n, h, r, k}, {n, k, h, c}}},
            {"nkr,nkc->ncr", {{n, k, r}, {n, k, c}}},
            {"nkr,kc->rnc", {{n, k, r}, {k, c}}},
            {"rk,nck->crn", {{r, k}, {n, c, k}}}};
        const auto& [equation, shapes] = cases[any(0, cases.size() - 1)];
        SCOPED_TRACE(equation);
        ASSERT_NO_FATAL_FAILURE(
            expect_as_in_f64("Einsum", shapes.first, shapes.second, {{"equation", text(equation)}}));
    }
}

// The depth in two parts has the bits of one.
TEST_F(product_families, a_bias_may_be_one_number) {
    for (const lengths& of_bias : {lengths{}, lengths{1}, lengths{1, 1}}) {
        const single_node gemm{
            "Gemm",
            {any_tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), any_tensor(std::vector<float>{1, 0, -1}, {3, 1}),
             any_tensor(std::vector<float>{10}, of_bias)}};
        EXPECT_EQ(run_node(gemm, on_)[0].values<float>()[1], 8);
    }
}

TEST_F(product_families, each_unit_multiplies_panels) {
    for (const product_loops* const unit : known_product_loops()) {
        for (std::size_t rows = 1; rows <= 14; ++rows) {
            const std::size_t depth = 37, columns = any(1, unit->width), pitch = unit->width + 3;
            const auto a = numbers(rows * depth), b = numbers(depth * pitch);
            std::vector<float> y(rows * unit->width, 7.0f), parts = y;
            product_panel of{a.data(), b.data(), y.data(), rows,        depth, columns,
                             depth,    1,        pitch,    unit->width, 1,     false};
            unit->multiply(of);
            of.y = parts.data();
            of.depth = 20;
            unit->multiply(of);
            of.a += 20;
            of.b += 20 * pitch;
            of.depth = 17;
            of.adds = true;
            unit->multiply(of);
            EXPECT_EQ(y, parts);
            for (std::size_t r = 0; r < rows; ++r) {
                for (std::size_t c = 0; c < unit->width; ++c) {
                    double sum = 0;
                    for (std::size_t k = 0; k < depth; ++k)
                        sum += static_cast<double>(a[r * depth + k]) * static_cast<double>(b[k * pitch + c]);
                    ASSERT_NEAR(static_cast<double>(y[r * unit->width + c]), c < columns ? sum : 7.0, 1e-4);
                }
            }
        }
    }
}

}  // namespace sluice::nn::product_families_tests
