// SPDX-License-Identifier: Apache-2.0
// The functions of vector units against the standard library's in double, over floats of all magnitudes, and where an
// element is must not matter.
#include "kernels/elementwise/vector_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sluice::kernels::vector_math_tests {
namespace {

struct known_function {
    const char* name;
    vector_math::function vector_math::* of;
    double (*exact)(double);
    double most_ulp;
};
const known_function all_functions[] = {
    {"exponential", &vector_math::exponential, [](double x) { return std::exp(x); }, 1},
    {"sigmoid", &vector_math::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 1.6},
    {"hyperbolic_tangent", &vector_math::hyperbolic_tangent, [](double x) { return std::tanh(x); }, 1.4},
    {"error_function", &vector_math::error_function, [](double x) { return std::erf(x); }, 1.4},
    {"logarithm", &vector_math::logarithm, [](double x) { return std::log(x); }, 0.6},
    {"softplus", &vector_math::softplus,
     [](double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x)); }, 0.6},
    {"sine", &vector_math::sine, [](double x) { return std::sin(x); }, 0.6},
    {"cosine", &vector_math::cosine, [](double x) { return std::cos(x); }, 0.6},
    {"arctangent", &vector_math::arctangent, [](double x) { return std::atan(x); }, 0.6}};

// The distance of neighbours at this number.
double ulp_at(double exact) {
    const auto size = static_cast<float>(std::fabs(exact));
    if (size < std::numeric_limits<float>::min()) return std::numeric_limits<float>::denorm_min();
    int exponent = 0;
    std::frexp(size, &exponent);
    return std::ldexp(1.0, exponent - 24);
}

TEST(vector_math, differs_from_the_exact_result_by_little) {
    constexpr std::uint64_t step = 2'053;  // of the bits of a float
    std::vector<float> x(4'096), y(x.size());
    for (const vector_math* each : known_vector_math()) {
        for (const known_function& function : all_functions) {
            SCOPED_TRACE(function.name);
            double most = 0;
            for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += step * x.size()) {
                for (std::size_t i = 0; i < x.size(); ++i)
                    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits + i * step));
                (each->*function.of)(x.data(), y.data(), x.size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const double exact = function.exact(static_cast<double>(x[i]));
                    ASSERT_EQ(std::isnan(y[i]), std::isnan(exact)) << x[i];
                    if (std::isnan(exact) || (std::isinf(y[i]) && std::isinf(static_cast<float>(exact)))) continue;
                    most = std::max(most, std::fabs(static_cast<double>(y[i]) - exact) / ulp_at(exact));
                }
            }
            EXPECT_LE(most, function.most_ulp);
        }
    }
}

TEST(vector_math, gives_exponentials_of_wide_numbers) {
    std::mt19937 numbers(5);
    std::uniform_real_distribution<double> any(-700, 700);
    for (const vector_math* each : known_vector_math()) {
        for (std::size_t count = 1; count < 40; ++count) {
            std::vector<double> x(count), y(count);
            for (double& one : x) one = any(numbers);
            each->wide_exponential(x.data(), y.data(), count);
            for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(y[i] / std::exp(x[i]), 1, 1e-11) << x[i];
        }
        constexpr double infinity = std::numeric_limits<double>::infinity();
        double special[] = {std::numeric_limits<double>::quiet_NaN(), 0, -1e9, -infinity, 720, infinity, -740, 709};
        each->wide_exponential(special, special, 8);
        EXPECT_TRUE(std::isnan(special[0]));
        EXPECT_EQ(special[1], 1);
        EXPECT_EQ(special[2], 0);
        EXPECT_EQ(special[3], 0);
        EXPECT_EQ(special[4], infinity);
        EXPECT_EQ(special[5], infinity);
        EXPECT_NEAR(special[6] / std::exp(-740.0), 1, 0.05);  // few bits are left
        EXPECT_NEAR(special[7] / std::exp(709.0), 1, 1e-11);
    }
}

// Where 1 + erf cancels, the error is a part of the input and not of the result.
TEST(vector_math, gives_gelu_up_to_a_small_part_of_the_input) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const vector_math* each : known_vector_math()) {
        double most = 0;
        for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 70'001) {
            const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
            float y = 0;
            each->gelu(&x, &y, 1);
            if (std::isnan(x) || x == -infinity) {
                EXPECT_TRUE(std::isnan(y)) << x;  // as 0.5 * x * (1 + erf(x / sqrt(2)))
                continue;
            }
            if (std::isinf(x) || std::fabs(x) < 1e-30f) continue;
            const auto wide = static_cast<double>(x);
            const double exact = 0.5 * wide * std::erfc(-wide * 0.70710678118654752);
            most = std::max(most, std::fabs(static_cast<double>(y) - exact) / std::fabs(wide));
        }
        EXPECT_LE(most, 2e-7);
        float largest = infinity, made = 0;
        each->gelu(&largest, &made, 1);
        EXPECT_EQ(made, infinity);
    }
}

TEST(vector_math, gives_the_limits) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const vector_math* each : known_vector_math()) {
        const auto of = [&](vector_math::function vector_math::* function, float x) {
            float y = 0;
            (each->*function)(&x, &y, 1);
            return y;
        };
        EXPECT_EQ(of(&vector_math::exponential, infinity), infinity);
        EXPECT_EQ(of(&vector_math::exponential, -infinity), 0);
        EXPECT_EQ(of(&vector_math::exponential, 0), 1);
        EXPECT_EQ(of(&vector_math::sigmoid, infinity), 1);
        EXPECT_EQ(of(&vector_math::sigmoid, -infinity), 0);
        EXPECT_EQ(of(&vector_math::sigmoid, 0), 0.5f);
        for (const auto function : {&vector_math::hyperbolic_tangent, &vector_math::error_function}) {
            EXPECT_EQ(of(function, infinity), 1);
            EXPECT_EQ(of(function, -infinity), -1);
            EXPECT_TRUE(std::signbit(of(function, -0.0f)));
        }
        EXPECT_EQ(of(&vector_math::logarithm, 0), -infinity);
        EXPECT_EQ(of(&vector_math::logarithm, infinity), infinity);
        EXPECT_EQ(of(&vector_math::logarithm, 1), 0);
        EXPECT_EQ(of(&vector_math::softplus, infinity), infinity);
        EXPECT_EQ(of(&vector_math::softplus, -infinity), 0);
        EXPECT_EQ(of(&vector_math::sine, 0), 0);
        EXPECT_TRUE(std::signbit(of(&vector_math::sine, -0.0f)));
        EXPECT_TRUE(std::signbit(of(&vector_math::arctangent, -0.0f)));
        EXPECT_EQ(of(&vector_math::cosine, 0), 1);
        EXPECT_TRUE(std::isnan(of(&vector_math::sine, infinity)));
    }
}

TEST(vector_math, gives_powers_of_any_two_numbers) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::mt19937 numbers(8);
    std::vector<float> special = {0,     -0.0f,  1,          -1,         2,           -2,   3,
                                  -3,    0.5f,   -0.5f,      infinity,   -infinity,   nan,  1e-40f,
                                  1e38f, -1e38f, 16'777'215, 16'777'216, -16'777'215, 1.5f, 1e30f};
    std::vector<float> a, b;
    for (const float each : special) {
        for (const float other : special) {
            a.push_back(each);
            b.push_back(other);
        }
    }
    std::uniform_real_distribution<float> any_exponent(-30, 30), any_base(-20, 20);
    for (int k = 0; k < 100'000; ++k) {
        a.push_back(k % 3 == 0 ? any_base(numbers) : std::exp2(any_base(numbers)));
        b.push_back(k % 3 == 0 ? std::rint(any_exponent(numbers) / 4) : any_exponent(numbers) / 4);
    }
    for (const vector_math* each : known_vector_math()) {
        std::vector<float> y(a.size());
        each->power(a.data(), b.data(), y.data(), y.size());
        for (std::size_t i = 0; i < y.size(); ++i) {
            const double exact = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
            const std::string what = std::to_string(a[i]) + " to the " + std::to_string(b[i]);
            ASSERT_EQ(std::isnan(y[i]), std::isnan(exact)) << what;
            if (std::isnan(exact)) continue;
            ASSERT_EQ(std::signbit(y[i]), std::signbit(exact)) << what;
            if (std::isinf(y[i]) && std::isinf(static_cast<float>(exact))) continue;
            ASSERT_LE(std::fabs(static_cast<double>(y[i]) - exact), 1.0 * ulp_at(exact)) << what;
        }
        // One exponent for all: exact ones have ways of their own, which they take next to others too.
        for (const float exponent : {2.0f, 0.5f, 3.0f, -1.0f, 1.0f, 4.0f, -2.0f, -0.5f, 0.0f, 1.5f, 2.2f, -3.0f}) {
            y.resize(4'000);
            std::vector<float> same(y.size(), exponent), next(y.size());
            each->power(a.data(), same.data(), y.data(), y.size());
            for (std::size_t i = 1; i < same.size(); i += 2) same[i] = 7.25f;
            each->power(a.data(), same.data(), next.data(), next.size());
            for (std::size_t i = 0; i < y.size(); ++i) {
                const double exact = std::pow(static_cast<double>(a[i]), static_cast<double>(exponent));
                const std::string what = std::to_string(a[i]) + " to the " + std::to_string(exponent);
                ASSERT_EQ(std::isnan(y[i]), std::isnan(exact)) << what;
                if (std::isnan(exact)) continue;
                ASSERT_EQ(std::signbit(y[i]), std::signbit(exact)) << what;
                if (i % 2 == 0) {
                    ASSERT_EQ(y[i], next[i]) << what;
                }
                if (std::isinf(y[i]) && std::isinf(static_cast<float>(exact))) continue;
                ASSERT_LE(std::fabs(static_cast<double>(y[i]) - exact), 0.7 * ulp_at(exact)) << what;
            }
        }
    }
}

TEST(vector_math, gives_an_element_the_same_bits_wherever_it_is) {
    std::mt19937 numbers(5);
    std::normal_distribution<float> any(0, 3);
    std::vector<float> x(133);
    for (float& each : x) each = any(numbers);
    for (const vector_math* each : known_vector_math()) {
        for (const known_function& function : all_functions) {
            std::vector<float> all(x.size());
            (each->*function.of)(x.data(), all.data(), x.size());
            for (std::size_t first = 0; first < 40; ++first) {
                for (std::size_t count = 1; count < 40; ++count) {
                    std::vector<float> some(x.begin() + static_cast<std::ptrdiff_t>(first),
                                            x.begin() + static_cast<std::ptrdiff_t>(first + count));
                    (each->*function.of)(some.data(), some.data(), count);
                    for (std::size_t i = 0; i < count; ++i)
                        ASSERT_EQ(std::bit_cast<std::uint32_t>(some[i]), std::bit_cast<std::uint32_t>(all[first + i]))
                            << function.name;
                }
            }
        }
    }
}

TEST(vector_math, makes_the_softmax_of_rows_of_any_length) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::mt19937 numbers(6);
    for (const vector_math* each : known_vector_math()) {
        for (const std::size_t count : {1u, 2u, 3u, 7u, 8u, 15u, 16u, 17u, 31u, 33u, 100u, 1'000u, 40'001u}) {
            for (const float scale : {0.0f, 1.0f, 50.0f, 1e30f}) {
                std::normal_distribution<float> any;
                std::vector<float> x(count);
                for (float& one : x) one = any(numbers) * scale;
                if (count > 2 && numbers() % 2 == 0) x[numbers() % count] = -infinity;
                std::vector<double> exact(x.begin(), x.end());
                const double largest = *std::ranges::max_element(exact);
                double sum = 0;
                for (const double one : exact) sum += std::exp(one - largest);
                each->softmax(x.data(), count);
                for (std::size_t i = 0; i < count; ++i) {
                    const double distance = exact[i] - largest, expected = std::exp(distance) / sum;
                    // The distance is rounded to f32 before it is the exponent.
                    const double tolerance = expected == 0 ? 0 : expected * (4e-7 - 1e-7 * distance);
                    ASSERT_NEAR(x[i], expected, tolerance + 1e-44) << count;
                }
            }
            for (const float odd : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
                std::vector<float> x(count, 1);
                x[count / 2] = odd;
                each->softmax(x.data(), count);
                EXPECT_TRUE(std::isnan(x[count / 2]));
            }
            std::vector<float> nothing(count, -infinity);
            each->softmax(nothing.data(), count);
            EXPECT_TRUE(std::ranges::all_of(nothing, [](float one) { return std::isnan(one); }));
        }
    }
}

}  // namespace
}  // namespace sluice::kernels::vector_math_tests
