// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
