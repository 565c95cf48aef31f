// SPDX-License-Identifier: Apache-2.0
// The functions of row_math of each vector unit that this processor has: sums and extremes are, bit by bit, the same on
// each, and near those of long double; norms and softmax are near those of double.
#include "kernels/reduction/row_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace sluice::kernels::row_math_tests {
namespace {

class row_math_of_units : public ::testing::Test {
protected:
    std::vector<float> normal(std::size_t count) {
        std::normal_distribution<float> one(0.5f, 2);
        std::vector<float> made(count);
        for (float& each : made) each = one(numbers_);
        return made;
    }
    static constexpr std::size_t counts[] = {1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 100, 255, 256, 1'000, 5'003};

    std::mt19937 numbers_{3};
    const std::vector<const row_math*> units_ = known_row_math();
};

TEST_F(row_math_of_units, sums_rows) {
    for (const std::size_t count : counts) {
        const auto x = normal(count);
        const double centre = 0.3;
        long double sum = 0, magnitude = 0, squares = 0, exponentials = 0;
        for (const float each : x) {
            const auto wide = static_cast<long double>(each);
            sum += wide;
            magnitude += std::fabs(wide);
            squares += (wide - 0.3L) * (wide - 0.3L);
            exponentials += std::exp(wide - 0.3L);
        }
        for (const row_math* const unit : units_) {
            EXPECT_NEAR(unit->sum.of_row(x.data(), count, 0), static_cast<double>(sum),
                        1e-11 * static_cast<double>(magnitude));
            EXPECT_NEAR(unit->absolute_sum.of_row(x.data(), count, 0), static_cast<double>(magnitude), 1e-10);
            EXPECT_NEAR(unit->square_sum.of_row(x.data(), count, centre), static_cast<double>(squares), 1e-9);
            EXPECT_NEAR(unit->exponential_sum.of_row(x.data(), count, centre), static_cast<double>(exponentials),
                        1e-6 * static_cast<double>(exponentials));
            EXPECT_EQ(unit->sum.of_row(x.data(), count, 0), units_.back()->sum.of_row(x.data(), count, 0));
            EXPECT_EQ(unit->square_sum.of_row(x.data(), count, centre),
                      units_.back()->square_sum.of_row(x.data(), count, centre));
            EXPECT_EQ(unit->maximum.of_row(x.data(), count, 0), static_cast<double>(*std::ranges::max_element(x)));
            float low = 0, high = 0;
            unit->range(x.data(), count, &low, &high);
            EXPECT_EQ(low, std::min(0.0f, *std::ranges::min_element(x)));
            EXPECT_EQ(high, std::max(0.0f, *std::ranges::max_element(x)));
            std::vector<float> with_nan = x;
            with_nan[count / 2] = std::nanf("");
            unit->range(with_nan.data(), count, &low, &high);
            EXPECT_FALSE(std::isnan(low) || std::isnan(high));
            EXPECT_EQ(unit->minimum.of_row(x.data(), count, 0), static_cast<double>(*std::ranges::min_element(x)));
        }
    }
}

// Wherever it is.
TEST_F(row_math_of_units, give_nan_for_a_row_with_nan) {
    for (const std::size_t count : {1u, 5u, 16u, 17u, 70u}) {
        for (std::size_t at = 0; at < count; ++at) {
            auto x = normal(count);
            x[at] = std::nanf("");
            for (const row_math* const unit : units_) {
                for (const auto& each : {unit->sum, unit->absolute_sum, unit->square_sum, unit->exponential_sum,
                                         unit->maximum, unit->minimum})
                    EXPECT_TRUE(std::isnan(each.of_row(x.data(), count, 0))) << at << " of " << count;
            }
        }
    }
}

TEST_F(row_math_of_units, sums_columns_as_rows) {
    for (const std::size_t columns : {1u, 3u, 16u, 33u, 256u}) {
        const std::size_t rows = 21;
        auto x = normal(rows * columns);
        x[columns / 2] = std::nanf("");
        x[columns - 1] = std::numeric_limits<float>::infinity();
        const std::vector<double> centres(columns, 0.25);
        for (const row_math* const unit : units_) {
            for (const auto& each : {unit->sum, unit->absolute_sum, unit->square_sum, unit->exponential_sum,
                                     unit->maximum, unit->minimum}) {
                const bool is_least = each.of_row == unit->minimum.of_row;
                const bool is_extreme = is_least || each.of_row == unit->maximum.of_row;
                const double infinity = std::numeric_limits<double>::infinity();
                std::vector<double> made(columns, is_extreme ? (is_least ? infinity : -infinity) : 0.0);
                for (std::size_t r = 0; r < rows; ++r)
                    each.of_columns(x.data() + r * columns, made.data(), centres.data(), columns);
                for (std::size_t c = 0; c < columns; ++c) {
                    std::vector<float> column;
                    for (std::size_t r = 0; r < rows; ++r) column.push_back(x[r * columns + c]);
                    const double expected = each.of_row(column.data(), rows, 0.25);
                    ASSERT_EQ(std::isnan(made[c]), std::isnan(expected));
                    if (std::isnan(expected)) continue;
                    if (std::isinf(expected)) {
                        ASSERT_EQ(made[c], expected);
                    } else {
                        ASSERT_NEAR(made[c], expected, 1e-9 * (1 + std::fabs(expected)));
                    }
                }
            }
        }
    }
}

TEST_F(row_math_of_units, normalize_rows) {
    for (const std::size_t count : counts) {
        const auto x = normal(count), scale = normal(count), bias = normal(count);
        for (const row_math* const unit : units_) {
            std::vector<float> y(count), plain(count), alike(count);
            unit->normalize(x.data(), y.data(), count, 0.5f, 1e-9f, 1.7f, scale.data(), bias.data());
            unit->normalize(x.data(), plain.data(), count, 0.5f, 1e-9f, 1.7f, nullptr, nullptr);
            unit->normalize_alike(x.data(), alike.data(), count, 0.5f, 1e-9f, 1.7f, -2.0f, 3.0f);
            for (std::size_t i = 0; i < count; ++i) {
                const double exact = (static_cast<double>(x[i]) - 0.5 - 1e-9) * static_cast<double>(1.7f);
                ASSERT_NEAR(static_cast<double>(plain[i]), exact, 1e-5);
                ASSERT_NEAR(static_cast<double>(y[i]),
                            exact * static_cast<double>(scale[i]) + static_cast<double>(bias[i]), 1e-4);
                ASSERT_NEAR(static_cast<double>(alike[i]), exact * -2 + 3, 1e-4);
            }
        }
    }
}

TEST_F(row_math_of_units, make_softmax_of_columns) {
    for (const std::size_t columns : {1u, 2u, 19u, 256u}) {
        const std::size_t length = 13, stride = columns + 5;
        const auto x = normal(length * stride);
        for (const row_math* const unit : units_) {
            std::vector<float> y(length * stride, 7.0f), logarithms(length * stride, 7.0f);
            unit->softmax_columns(x.data(), y.data(), stride, length, columns, false);
            unit->softmax_columns(x.data(), logarithms.data(), stride, length, columns, true);
            for (std::size_t c = 0; c < columns; ++c) {
                double sum = 0;
                for (std::size_t r = 0; r < length; ++r) sum += std::exp(static_cast<double>(x[r * stride + c]));
                for (std::size_t r = 0; r < length; ++r) {
                    const double exact = std::exp(static_cast<double>(x[r * stride + c])) / sum;
                    ASSERT_NEAR(static_cast<double>(y[r * stride + c]), exact, 3e-7);
                    ASSERT_NEAR(static_cast<double>(logarithms[r * stride + c]), std::log(exact), 5e-6);
                }
            }
            EXPECT_EQ(y[columns], 7.0f);  // beyond the columns
        }
    }
}

}  // namespace
}  // namespace sluice::kernels::row_math_tests
