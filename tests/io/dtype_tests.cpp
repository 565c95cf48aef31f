// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "io/support/hostile_files.hpp"

namespace sluice::io::dtype_tests {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::little_endian;

constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();

// The value of a binary16 by the definition of the format, in double.
double defined_value_of_f16(std::uint16_t bits) {
    const int exponent = bits >> 10 & 0x1f;
    const int mantissa = bits & 0x3ff;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 0x1f) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

float converted(dtype type, std::uint64_t bits) {
    float result = -1;
    convert_to_float(type, bytes_of(little_endian(bits, size_of(type))), {&result, 1});
    return result;
}

TEST(dtype, has_the_size_and_the_name_of_each_type) {
    EXPECT_EQ(size_of(dtype::boolean), 1u);
    EXPECT_EQ(size_of(dtype::i8), 1u);
    EXPECT_EQ(size_of(dtype::bf16), 2u);
    EXPECT_EQ(size_of(dtype::f32), 4u);
    EXPECT_EQ(size_of(dtype::u64), 8u);
    EXPECT_EQ(to_string(dtype::boolean), "bool");
    EXPECT_EQ(to_string(dtype::bf16), "bf16");
    EXPECT_EQ(to_string(dtype::u16), "u16");
}

TEST(dtype, names_the_type_that_stores_a_cpp_type) {
    static_assert(dtype_of<bool> == dtype::boolean);
    static_assert(dtype_of<float> == dtype::f32);
    static_assert(dtype_of<double> == dtype::f64);
    static_assert(dtype_of<signed char> == dtype::i8);
    static_assert(dtype_of<unsigned short> == dtype::u16);
    static_assert(dtype_of<int> == dtype::i32);
    static_assert(dtype_of<long long> == dtype::i64);
    static_assert(dtype_of<unsigned long> == dtype::u64);
}

TEST(dtype, converts_every_f16_exactly) {
    for (std::uint32_t i = 0; i <= 0xffff; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const double expected = defined_value_of_f16(bits);
        const float value = f16_to_float(bits);
        ASSERT_EQ(std::isnan(value), std::isnan(expected)) << i;
        ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
        if (std::isnan(expected)) continue;
        ASSERT_EQ(static_cast<double>(value), expected) << i;
    }
}

TEST(dtype, converts_every_bf16_exactly) {
    for (std::uint32_t i = 0; i <= 0xffff; ++i) {
        const float expected = std::bit_cast<float>(i << 16);
        const float value = bf16_to_float(static_cast<std::uint16_t>(i));
        ASSERT_EQ(std::isnan(value), std::isnan(expected)) << i;
        ASSERT_EQ(std::signbit(value), (i & 0x8000) != 0) << i;
        if (std::isnan(expected)) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), i << 16) << i;
    }
}

TEST(dtype, converts_the_edges_of_f16) {
    EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);    // the smallest subnormal
    EXPECT_EQ(f16_to_float(0x03ff), 0x3ffp-24f);  // the largest subnormal
    EXPECT_EQ(f16_to_float(0x0400), 0x1p-14f);    // the smallest normal
    EXPECT_EQ(f16_to_float(0x7bff), 65504.f);     // the largest
    EXPECT_EQ(f16_to_float(0xc000), -2.f);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_to_float(0x8000)), 0x8000'0000u);  // minus zero
    EXPECT_EQ(f16_to_float(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(dtype, keeps_the_payload_of_nan_and_makes_it_quiet) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_to_float(0xfd55)), 0xffc0'0000u | 0x155u << 13);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bf16_to_float(0x7f81)), 0x7fc1'0000u);
}

TEST(dtype, converts_spans_of_every_type) {
    EXPECT_EQ(converted(dtype::f16, 0x3555), 0x1.554p-2f);
    EXPECT_EQ(converted(dtype::bf16, 0x3eab), 0x1.56p-2f);
    EXPECT_EQ(converted(dtype::f32, std::bit_cast<std::uint32_t>(0.1f)), 0.1f);
    EXPECT_EQ(converted(dtype::f64, std::bit_cast<std::uint64_t>(0.1)), 0.1f);
    EXPECT_EQ(converted(dtype::i8, 0xfb), -5.f);
    EXPECT_EQ(converted(dtype::u8, 0xfb), 251.f);
    EXPECT_EQ(converted(dtype::i16, 0x8000), -32768.f);
    EXPECT_EQ(converted(dtype::u16, 0x8000), 32768.f);
    EXPECT_EQ(converted(dtype::i32, 0xffff'ffff), -1.f);
    EXPECT_EQ(converted(dtype::u32, 0xffff'ffff), 0x1p32f);
    EXPECT_EQ(converted(dtype::i64, huge), -1.f);
    EXPECT_EQ(converted(dtype::u64, huge), 0x1p64f);
    EXPECT_EQ(converted(dtype::boolean, 0), 0.f);
    EXPECT_EQ(converted(dtype::boolean, 7), 1.f);
}

TEST(dtype, rounds_a_double_that_no_float_holds) {
    EXPECT_EQ(converted(dtype::f64, std::bit_cast<std::uint64_t>(1e300)), std::numeric_limits<float>::infinity());
    EXPECT_EQ(converted(dtype::f64, std::bit_cast<std::uint64_t>(-1e-300)), 0.f);
}

TEST(dtype, converts_from_places_that_are_not_aligned) {
    std::string bytes = "x";
    for (const std::uint16_t bits : {0x3c00, 0x4000, 0x4200}) bytes += little_endian(bits, 2);
    std::vector<float> values(3);
    convert_to_float(dtype::f16, bytes_of(bytes).subspan(1), values);
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST(dtype, refuses_spans_of_different_lengths) {
    std::vector<float> values(2);
    const std::string bytes(16, '\0');
    expect_error([&] { convert_to_float(dtype::f32, bytes_of(bytes).first(4), values); }, errc::shape_mismatch);
    expect_error([&] { convert_to_float(dtype::f32, bytes_of(bytes).first(9), values); }, errc::shape_mismatch);
    expect_error([&] { convert_to_float(dtype::f16, bytes_of(bytes).first(8), values); }, errc::shape_mismatch);
    EXPECT_NO_THROW(convert_to_float(dtype::f32, {}, {}));
}

TEST(dtype, counts_the_elements_and_bytes_of_a_shape) {
    using shape = std::vector<std::size_t>;
    EXPECT_EQ(element_count(shape{}), 1u);
    EXPECT_EQ(element_count(shape{3, 4, 5}), 60u);
    EXPECT_EQ(element_count(shape{3, 0, 5}), 0u);
    EXPECT_EQ(byte_count(shape{3, 4}, dtype::f64), 96u);
    EXPECT_EQ(byte_count(shape{huge}, dtype::u8), huge);
}

TEST(dtype, finds_that_a_shape_overflows_even_next_to_a_zero) {
    using shape = std::vector<std::size_t>;
    EXPECT_FALSE(element_count(shape{huge, 2}));
    EXPECT_FALSE(byte_count(shape{huge / 4 + 1}, dtype::f32));
    EXPECT_FALSE(byte_count(shape{std::size_t{1} << 32, std::size_t{1} << 32}, dtype::u8));
    EXPECT_FALSE(element_count(shape{0, huge, 2}));
    EXPECT_FALSE(element_count(shape{huge, 2, 0}));
}

}  // namespace
}  // namespace sluice::io::dtype_tests
