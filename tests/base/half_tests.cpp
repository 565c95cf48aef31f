// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/before_rounding.hpp"

namespace sluice::half_tests {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Values just below and just above the middle of two neighbours round to the nearer one; the middle rounds to even.
template <typename T>
void expect_rounding_to_nearest() {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const T here = T::from_bits(static_cast<std::uint16_t>(bits));
        const float value = here;
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(float{T(value)})) << bits;
            continue;
        }
        ASSERT_EQ(T(value).bits(), bits);
        if (std::isinf(value)) continue;
        const float next = T::from_bits(static_cast<std::uint16_t>(bits + 1));
        if (std::isinf(next)) continue;
        const float middle = static_cast<float>((double{value} + double{next}) / 2);
        ASSERT_EQ(T(middle).bits(), bits % 2 == 0 ? bits : bits + 1) << "a tie rounds to even";
        ASSERT_EQ(T(std::nextafter(middle, value)).bits(), bits);
        ASSERT_EQ(T(std::nextafter(middle, next)).bits(), bits + 1);
    }
}

}  // namespace

TEST(half, holds_every_value_and_rounds_to_the_nearest) { expect_rounding_to_nearest<half>(); }
TEST(bfloat16, holds_every_value_and_rounds_to_the_nearest) { expect_rounding_to_nearest<bfloat16>(); }

// Of doubles and integers that lie so near to a middle that a float of them is one.
template <typename T>
void expect_one_rounding() {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const T here = T::from_bits(static_cast<std::uint16_t>(bits)),
                next = T::from_bits(static_cast<std::uint16_t>(bits + 1));
        if (!std::isfinite(float{here}) || !std::isfinite(float{next})) continue;
        const double middle = (double{float{here}} + double{float{next}}) / 2;
        const auto rounded = [](auto number) { return T(detail::before_rounding(number)).bits(); };
        ASSERT_EQ(rounded(middle), bits % 2 == 0 ? bits : bits + 1);
        ASSERT_EQ(rounded(std::nextafter(middle, 0.0)), bits) << middle;
        ASSERT_EQ(rounded(std::nextafter(middle, middle < 0 ? -infinite : infinite)), bits + 1) << middle;
        if (std::abs(middle) < 1e9 || std::abs(middle) > 9e18) continue;
        const auto whole = static_cast<std::int64_t>(middle);
        ASSERT_EQ(rounded(whole), bits % 2 == 0 ? bits : bits + 1);
        ASSERT_EQ(rounded(whole < 0 ? whole + 1 : whole - 1), bits) << whole;
        ASSERT_EQ(rounded(whole < 0 ? whole - 1 : whole + 1), bits + 1) << whole;
        if (whole < 0) continue;
        ASSERT_EQ(rounded(static_cast<std::uint64_t>(whole) + 1), bits + 1);
    }
}

TEST(half, of_wider_numbers_is_rounded_once) { expect_one_rounding<half>(); }
TEST(bfloat16, of_wider_numbers_is_rounded_once) {
    expect_one_rounding<bfloat16>();
    EXPECT_EQ(float{bfloat16(detail::before_rounding((1 << 24) + (1 << 16) + 1))}, 16908288.0f);
    EXPECT_EQ(float{bfloat16(detail::before_rounding(~std::uint64_t{0}))}, 0x1p64f);
    EXPECT_EQ(float{bfloat16(detail::before_rounding(1e300))}, infinity);
    EXPECT_EQ(float{bfloat16(detail::before_rounding(-1e-300))}, 0.0f);
    EXPECT_TRUE(std::isnan(float{bfloat16(detail::before_rounding(std::nan("")))}));
}

TEST(half, has_the_values_of_ieee_binary16) {
    EXPECT_EQ(float{half::from_bits(0x3c00)}, 1.0f);
    EXPECT_EQ(float{half::from_bits(0xc000)}, -2.0f);
    EXPECT_EQ(float{half::from_bits(0x7bff)}, 65504.0f);
    EXPECT_EQ(float{half::from_bits(0x0001)}, 0x1p-24f);
    EXPECT_EQ(float{half::from_bits(0x7c00)}, infinity);
    EXPECT_TRUE(std::signbit(float{half(-0.0f)}));
}

TEST(half, becomes_infinite_where_the_nearest_would_be_too_large) {
    EXPECT_EQ(float{half(65519.996f)}, 65504.0f);
    EXPECT_EQ(float{half(65520.0f)}, infinity);
    EXPECT_EQ(float{half(-1e30f)}, -infinity);
    EXPECT_EQ(float{bfloat16(std::numeric_limits<float>::max())}, infinity);
}

}  // namespace sluice::half_tests
