// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/f8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace sluice::f8_tests {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// The value by the format's definition.
double defined_value(unsigned bits) {
    const int exponent = static_cast<int>(bits >> 3 & 15u), mantissa = static_cast<int>(bits & 7u);
    if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
    const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return (bits & 0x80u) != 0 ? -size : size;
}

}  // namespace

static_assert(sizeof(f8_e4m3) == 1 && std::is_trivially_copyable_v<f8_e4m3>);
static_assert(f8_e4m3(1.0f).bits() == 0x38, "usable in constant expressions");

TEST(f8_e4m3, has_the_values_of_its_definition) {
    for (unsigned bits = 0; bits < 256; ++bits) {
        const f8_e4m3 here = f8_e4m3::from_bits(static_cast<std::uint8_t>(bits));
        const double expected = defined_value(bits);
        ASSERT_EQ(here.bits(), bits);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(float{here})) << bits;
            EXPECT_EQ(f8_e4m3(float{here}).bits(), 0x7f);
            continue;
        }
        ASSERT_EQ(double{float{here}}, expected) << bits;
        ASSERT_EQ(std::signbit(float{here}), (bits & 0x80u) != 0) << bits;
        ASSERT_EQ(f8_e4m3(float{here}).bits(), bits);
    }
}

TEST(f8_e4m3, rounds_to_the_nearest_and_ties_to_even) {
    for (const unsigned sign : {0u, 0x80u}) {
        for (unsigned bits = 0; bits < 0x7e; ++bits) {
            const auto from = static_cast<std::uint8_t>(sign | bits), to = static_cast<std::uint8_t>(from + 1);
            const float here = f8_e4m3::from_bits(from), next = f8_e4m3::from_bits(to);
            const float middle = (here + next) / 2;  // exact
            ASSERT_EQ(f8_e4m3(middle).bits(), bits % 2 == 0 ? from : to) << middle;
            ASSERT_EQ(f8_e4m3(std::nextafter(middle, here)).bits(), from) << middle;
            ASSERT_EQ(f8_e4m3(std::nextafter(middle, next)).bits(), to) << middle;
        }
    }
}

TEST(f8_e4m3, rounds_tiny_numbers_to_zero_or_to_the_smallest) {
    EXPECT_EQ(f8_e4m3(0x1p-10f).bits(), 0x00) << "a tie between 0 and 2^-9";
    EXPECT_EQ(f8_e4m3(std::nextafter(0x1p-10f, 1.0f)).bits(), 0x01);
    EXPECT_EQ(f8_e4m3(-0x1p-149f).bits(), 0x80);
    EXPECT_EQ(f8_e4m3(0x3p-10f).bits(), 0x02) << "a tie between 2^-9 and 2^-8";
    EXPECT_EQ(f8_e4m3(0x1fp-11f).bits(), 0x08) << "between the largest subnormal and the smallest normal number";
}

TEST(f8_e4m3, saturates_and_keeps_nan) {
    const float largest = std::numeric_limits<float>::max();
    for (const float beyond : {448.0f, 448.5f, 464.0f, 480.0f, 1e10f, largest, infinity}) {
        EXPECT_EQ(float{f8_e4m3(beyond)}, 448.0f) << beyond;
        EXPECT_EQ(float{f8_e4m3(-beyond)}, -448.0f) << beyond;
    }
    EXPECT_EQ(float{f8_e4m3(432.0f)}, 448.0f) << "a tie between 416 and 448, whose mantissa is even";
    EXPECT_EQ(float{f8_e4m3(431.9f)}, 416.0f);
    EXPECT_EQ(f8_e4m3(std::numeric_limits<float>::quiet_NaN()).bits(), 0x7f);
    EXPECT_EQ(f8_e4m3(-std::numeric_limits<float>::signaling_NaN()).bits(), 0x7f);
}

}  // namespace sluice::f8_tests
