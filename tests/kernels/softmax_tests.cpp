// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/softmax.hpp"

#include <numeric>

#include "conformance/backend.hpp"
#include "kernels/reference.hpp"

namespace sluice::conformance::softmax_tests {
namespace {

class softmaxes : public conformance_test {
protected:
    floats apply(const floats& x, const shape& of) {
        auto operation = upload(x, of).and_then([](auto in) { return softmax(std::move(in)); });
        return sync(std::move(operation).and_then(download), pool);
    }

    random_floats fresh{7};
    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, softmaxes, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(softmaxes, agree_with_the_reference_row_by_row) {
    for (const shape& of :
         {shape{1, 1}, shape{1, 10}, shape{7, 31}, shape{8, 32}, shape{9, 33}, shape{300, 10}, shape{3, 5000}}) {
        const floats x = fresh(of.size(), 4);
        doubles expected(x.begin(), x.end());
        softmax_reference(expected, of.columns());
        const floats got = apply(x, of);
        expect_close(got, expected);
        for (std::size_t row = 0; row < of.rows(); ++row) {
            const auto first = got.begin() + static_cast<std::ptrdiff_t>(row * of.columns());
            EXPECT_NEAR(std::accumulate(first, first + static_cast<std::ptrdiff_t>(of.columns()), 0.0), 1, 1e-5);
        }
    }
}

TEST_P(softmaxes, of_large_inputs_do_not_overflow) {
    const floats got = apply({1e4f, 1e4f, -1e4f, 3e38f, 0, -3e38f}, {2, 3});
    EXPECT_EQ(got, (floats{0.5f, 0.5f, 0, 1, 0, 0}));
}

TEST_P(softmaxes, add_up_what_single_floats_would_lose) {
    // Added to the first exponential, 1, each of the others (2^-25) would be lost; together they are 1/32 of it.
    constexpr std::size_t columns = std::size_t{1} << 20;
    floats x(columns, -25 * std::log(2.0f));
    x[0] = 0;
    const floats got = apply(x, {columns});
    const double small = std::exp(double{x[1]}), sum = 1 + small * (columns - 1);
    EXPECT_NEAR(got[0], 1 / sum, 1e-5);
    EXPECT_NEAR(got[columns - 1] * sum / small, 1, 1e-4);
    EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 1, 1e-5);
}

TEST_P(softmaxes, give_nothing_to_minus_infinity) {
    EXPECT_EQ(apply({0, -infinity, 0, -infinity}, {1, 4}), (floats{0.5f, 0, 0.5f, 0}));
    EXPECT_EQ(apply({-infinity, 5, 3, -infinity}, {2, 2}), (floats{0, 1, 1, 0}));
}

TEST_P(softmaxes, of_a_single_column_are_one) { EXPECT_EQ(apply({-5, 0, 1e30f}, {3, 1}), (floats{1, 1, 1})); }

TEST_P(softmaxes, of_a_row_with_nan_are_all_nan_and_other_rows_are_not) {
    for (const std::size_t place : {0u, 1u, 39u}) {
        floats x = fresh(80);
        x[place] = nan;
        const floats got = apply(x, {2, 40});
        for (std::size_t i = 0; i < 40; ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
        for (std::size_t i = 40; i < 80; ++i) EXPECT_FALSE(std::isnan(got[i])) << i;
    }
}

TEST_P(softmaxes, run_over_the_last_dimension) {
    const floats x = fresh(24);
    EXPECT_EQ(apply(x, {2, 3, 4}), apply(x, {6, 4}));
    EXPECT_EQ(apply(x, {24}), apply(x, {1, 24}));
}

TEST_P(softmaxes, of_nothing_are_nothing) {
    EXPECT_TRUE(apply({}, {0, 5}).empty());
    EXPECT_TRUE(apply({}, {5, 0}).empty());
}

}  // namespace sluice::conformance::softmax_tests
