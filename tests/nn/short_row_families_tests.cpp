// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax, TopK and the place of the greatest element, of many short rows and of others, with special
// values, against the same node in f64, which is computed element by element.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::short_row_families_tests {
namespace {

using namespace test_support;
using ::testing::ElementsAreArray;
using lengths = std::vector<std::size_t>;

class short_row_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    // Many are equal, and some are infinite or NaN.
    std::vector<float> numbers(std::size_t count, bool is_special) {
        std::vector<float> made(count);
        for (float& each : made) each = static_cast<float>(any(0, 16)) / 4 - 2;
        for (std::size_t i = 0; is_special && i < count; i += any(3, 40)) {
            const float odd[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(), -0.0f};
            made[i] = odd[any(0, 3)];
        }
        return made;
    }
    static any_tensor wide(const std::vector<float>& from, const lengths& shape) {
        return any_tensor(std::vector<double>(from.begin(), from.end()), shape);
    }
    lengths shape() {
        lengths made{any(1, 5), any(0, 3) == 0 ? any(200, 700) : any(1, 40),
                     any(0, 5) == 0 ? any(100, 400) : any(1, 20)};
        if (any(0, 3) == 0) made.push_back(any(1, 5));
        return made;
    }

    std::minstd_rand numbers_{11};
    runtime machine_{runtime_options{.cuda = false}};
    round_robin on_{machine_.find("cpu:0"), 1};
};

}  // namespace

TEST_F(short_row_families, reductions_and_softmax_are_as_in_f64) {
    const std::vector<std::string> reductions{"ReduceMax", "ReduceMin",       "ReduceMean",     "ReduceL1",
                                              "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp"};
    for (int i = 0; i < 250; ++i) {
        const lengths of = shape();
        const bool is_softmax = any(0, 2) == 0;
        const std::string op = is_softmax ? any(0, 1) == 0 ? "Softmax" : "LogSoftmax" : reductions[any(0, 6)];
        SCOPED_TRACE(op + " of " + std::to_string(of.back()) + ", " + std::to_string(i));
        std::size_t count = 1;
        for (const std::size_t each : of) count *= each;
        const std::vector<float> x = numbers(count, any(0, 2) == 0);
        const attributes with = is_softmax ? attributes{{"axis", whole(-1)}} : attributes{{"axes", wholes({-1})}};
        const auto made = run_node({op, {any_tensor(x, of)}, with}, on_),
                   exact = run_node({op, {wide(x, of)}, with}, on_);
        ASSERT_EQ(made[0].shape(), exact[0].shape());
        const auto a = made[0].values<float>();
        const auto b = exact[0].values<double>();
        for (std::size_t k = 0; k < a.size(); ++k) {
            if (std::isfinite(b[k])) {
                ASSERT_NEAR(static_cast<double>(a[k]), b[k], 2e-6 * (1 + std::fabs(b[k]))) << k;
            } else {
                ASSERT_TRUE(std::isnan(b[k]) ? std::isnan(a[k]) : static_cast<double>(a[k]) == b[k]) << k;
            }
        }
    }
}

TEST_F(short_row_families, the_place_of_an_extreme_is_as_in_f64) {
    for (int i = 0; i < 250; ++i) {
        const lengths of = shape();
        std::size_t count = 1;
        for (const std::size_t each : of) count *= each;
        const std::vector<float> x = numbers(count, any(0, 1) == 0);
        const attributes with{{"axis", whole(static_cast<std::int64_t>(any(0, of.size() - 1)))},
                              {"select_last_index", whole(static_cast<std::int64_t>(any(0, 1)))}};
        const std::string op = any(0, 1) == 0 ? "ArgMax" : "ArgMin";
        SCOPED_TRACE(op + ", " + std::to_string(i));
        const auto made = run_node({op, {any_tensor(x, of)}, with}, on_),
                   exact = run_node({op, {wide(x, of)}, with}, on_);
        EXPECT_EQ(made[0].shape(), exact[0].shape());
        EXPECT_THAT(made[0].values<std::int64_t>(), ElementsAreArray(exact[0].values<std::int64_t>()));
    }
}

TEST_F(short_row_families, the_greatest_and_the_least_are_as_in_f64) {
    for (int i = 0; i < 200; ++i) {
        lengths of = shape();
        if (any(0, 9) == 0) of = {any(1, 3), any(2'000, 9'000)};
        std::size_t count = 1;
        for (const std::size_t each : of) count *= each;
        const std::vector<float> x = numbers(count, any(0, 1) == 0);
        const std::size_t axis = any(0, of.size() - 1),
                          most = any(0, 2) == 0 ? of[axis] : std::min(of[axis], any(1, 40));
        const std::vector<std::int64_t> k{static_cast<std::int64_t>(most)};
        const attributes with{{"axis", whole(static_cast<std::int64_t>(axis))},
                              {"largest", whole(static_cast<std::int64_t>(any(0, 1)))}};
        SCOPED_TRACE(std::to_string(most) + " of " + std::to_string(of[axis]) + ", " + std::to_string(i));
        const auto made = run_node({"TopK", {any_tensor(x, of), list(k)}, with, {}, 17, 2}, on_),
                   exact = run_node({"TopK", {wide(x, of), list(k)}, with, {}, 17, 2}, on_);
        ASSERT_EQ(made[0].shape(), exact[0].shape());
        ASSERT_THAT(made[1].values<std::int64_t>(), ElementsAreArray(exact[1].values<std::int64_t>()));
        const auto a = made[0].values<float>();
        const auto b = exact[0].values<double>();
        for (std::size_t e = 0; e < a.size(); ++e)
            ASSERT_TRUE(static_cast<double>(a[e]) == b[e] || (std::isnan(a[e]) && std::isnan(b[e]))) << e;
    }
}

}  // namespace sluice::nn::short_row_families_tests
