// SPDX-License-Identifier: Apache-2.0
// The functions of vector_math.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
//
// The coefficients are minimax approximations of the relative error over the interval that is named, from a linear
// program over 4,000 Chebyshev points, in double; in f32 they are off by the error that is named.
#pragma once

#include <cstddef>

#include "kernels/add_product.hpp"
#include "kernels/elementwise/vector_math.hpp"

namespace sluice::kernels {
namespace {

// As wide as a register: g++ 12 takes comparisons of wider vectors apart.
#if defined(__AVX512F__)
constexpr std::size_t lane_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t lane_bytes = 32;
#else
constexpr std::size_t lane_bytes = 16;
#endif
constexpr std::size_t lane_numbers = lane_bytes / sizeof(float);
using number_lane __attribute__((vector_size(lane_bytes))) = float;
using loose_number_lane __attribute__((vector_size(lane_bytes), aligned(4))) = float;  // wherever it is
using bit_lane __attribute__((vector_size(lane_bytes))) = int;
constexpr int sign_bit = static_cast<int>(0x80000000u);

// (Vectors are no results: the calling convention for them depends on the unit.)

// coefficients[0] + x * (coefficients[1] + x * ...)
template <std::size_t Count>
[[gnu::always_inline]] inline void polynomial(const float (&coefficients)[Count], const number_lane& x,
                                              number_lane& to) {
    number_lane made = number_lane{} + coefficients[Count - 1];
    for (std::size_t k = Count - 1; k-- > 0;) {
        number_lane next = number_lane{} + coefficients[k];
        add_product(next, made, x);
        made = next;
    }
    to = made;
}

// exp(x) = 2^n exp(r), n the whole number next to x / ln 2. exp(r) = 1 + r + r^2 q(r) for |r| <= ln(2) / 2, off by
// 4e-11. 2^n is two factors, so that results below the smallest normal number are rounded once.
// `lost`: what the last addition lost, as a part of about the result.
[[gnu::always_inline]] inline void exponential(const number_lane& x, number_lane& to, number_lane& lost) {
    constexpr float q[] = {0.5f, 0.16666666f, 0.041666292f, 0.0083336262f, 0.0013945259f, 0.00019735683f};
    constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    constexpr float rounding = 12'582'912;  // 1.5 * 2^23: what is added to it is rounded to a whole number
    const number_lane most = number_lane{} + 89.0f, least = number_lane{} - 104.0f, none = number_lane{} + rounding;
    number_lane limited = x > most ? most : x;  // NaN stays
    limited = limited < least ? least : limited;
    number_lane shifted = none;
    add_product(shifted, log2_e, limited);
    const number_lane whole = shifted - rounding;
    number_lane r = limited;
    add_product(r, -ln2_high, whole);
    add_product(r, -ln2_low, whole);
    number_lane rest, made = r;
    polynomial(q, r, rest);
    add_product(made, rest, r * r);
    const number_lane sum = made + 1.0f;
    lost = made - (sum - 1.0f);
    made = sum;
    const bit_lane n = reinterpret_cast<bit_lane>(shifted) - reinterpret_cast<bit_lane>(none);
    const bit_lane half = n >> 1, other = n - half;
    to = made * reinterpret_cast<number_lane>((half + 127) << 23) * reinterpret_cast<number_lane>((other + 127) << 23);
}

[[gnu::always_inline]] inline void exponential(const number_lane& x, number_lane& to) {
    number_lane lost;
    exponential(x, to, lost);
}

[[gnu::always_inline]] inline void set_magnitude(number_lane& to, const number_lane& x) {
    to = reinterpret_cast<number_lane>(reinterpret_cast<bit_lane>(x) & ~sign_bit);
}
[[gnu::always_inline]] inline void take_sign(number_lane& size, const number_lane& x) {
    size = reinterpret_cast<number_lane>((reinterpret_cast<bit_lane>(x) & sign_bit) | reinterpret_cast<bit_lane>(size));
}

// With e = exp(-|x|): 1 / (1 + e), or e / (1 + e) for x < 0, with what e and 1 + e have lost.
[[gnu::always_inline]] inline void sigmoid(const number_lane& x, number_lane& to) {
    number_lane size, falling, lost;
    set_magnitude(size, x);
    exponential(-size, falling, lost);
    const number_lane one = number_lane{} + 1.0f;
    const number_lane divisor = one + falling, made = (x < 0.0f ? falling : one) / divisor;
    number_lane mended = made;
    add_product(mended, made, lost - (falling - (divisor - one)));
    to = x < 0.0f ? mended : made;
}

// For |x| < 0.625, x + x^3 p(x^2), off by 1e-10; else 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
[[gnu::always_inline]] inline void hyperbolic_tangent(const number_lane& x, number_lane& to) {
    constexpr float p[] = {-0.33333331f, 0.13333204f, -0.05394645f, 0.021698643f, -0.0081719244f, 0.0021378081f};
    const number_lane square = x * x;
    number_lane size, rest, small = x, grown;
    set_magnitude(size, x);
    polynomial(p, square, rest);
    add_product(small, x, square * rest);
    take_sign(small, x);  // of -0
    exponential(size + size, grown);
    number_lane large = 1.0f - 2.0f / (grown + 1.0f);
    take_sign(large, x);
    to = size < 0.625f ? small : large;
}

// For |x| < 0.93, x + x p(x^2), off by 4e-10; else 1 - exp(-u(|x|)) with the sign of x, where u is the negative
// logarithm of erfc, off by 7e-10 up to 4. From there on the result is 1.
[[gnu::always_inline]] inline void error_function(const number_lane& x, number_lane& to) {
    constexpr float p[] = {0.12837917f,   -0.37612635f,    0.11283691f,   -0.026859097f,
                           0.0052001933f, -0.00081325736f, 8.3256265e-05f};
    constexpr float u[] = {1.1286545f,    0.63512689f,     0.10627723f,   -0.023796791f,
                           0.0036588723f, -0.00032684268f, 1.1635610e-05f};
    const number_lane square = x * x, most = number_lane{} + 4.0f;
    number_lane size, rest, small = x, left;
    set_magnitude(size, x);
    polynomial(p, square, rest);
    add_product(small, x, rest);
    const number_lane limited = size > most ? most : size;  // NaN stays
    polynomial(u, limited, rest);
    exponential(-(limited * rest), left);
    number_lane large = 1.0f - left;
    take_sign(large, x);
    to = size < 0.93f ? small : large;
}

// --- over many numbers -------------------------------------------------------------------------------------------

using lane_function = void (*)(const number_lane&, number_lane&);

// The last numbers, fewer than a lane has, in a lane of their own.
template <lane_function Apply>
void over(const float* x, float* y, std::size_t count) noexcept {
    std::size_t i = 0;
    for (; i + lane_numbers <= count; i += lane_numbers) {
        const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i);  // a copy, which is aligned
        number_lane made;
        Apply(each, made);
        *reinterpret_cast<loose_number_lane*>(y + i) = made;
    }
    if (i == count) return;
    number_lane some = {};
    for (std::size_t k = 0; k < count - i; ++k) some[k] = x[i + k];
    number_lane made;
    Apply(some, made);
    for (std::size_t k = 0; k < count - i; ++k) y[i + k] = made[k];
}

[[gnu::always_inline]] inline void exponential_lane(const number_lane& x, number_lane& to) { exponential(x, to); }
[[gnu::always_inline]] inline void sigmoid_lane(const number_lane& x, number_lane& to) { sigmoid(x, to); }
[[gnu::always_inline]] inline void tangent_lane(const number_lane& x, number_lane& to) { hyperbolic_tangent(x, to); }
[[gnu::always_inline]] inline void error_lane(const number_lane& x, number_lane& to) { error_function(x, to); }

// Kahan's sum, one for each place of a lane. A sum that is infinite or NaN stays so.
struct lane_sum {
    number_lane sum = {}, lost = {};

    [[gnu::always_inline]] void add(const number_lane& each) {
        const number_lane wanted = each - lost, made = sum + wanted;
        lost = (made - sum) - wanted;
        sum = made;
    }
};

// Numbers at the end that fill no lane are taken as `otherwise` beyond the row.
[[gnu::always_inline]] inline void rest_of_row(const float* x, std::size_t count, float otherwise, number_lane& to) {
    number_lane made = number_lane{} + otherwise;
    for (std::size_t k = 0; k < count; ++k) made[k] = x[k];
    to = made;
}

void softmax_of_row(float* x, std::size_t count) noexcept {
    const std::size_t whole = count / lane_numbers * lane_numbers;
    number_lane most = number_lane{} + x[0], rest;
    for (std::size_t i = 0; i < whole; i += lane_numbers) {
        const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i);
        most = each > most ? each : most;
    }
    rest_of_row(x + whole, count - whole, x[0], rest);
    most = rest > most ? rest : most;
    float largest = most[0];
    for (std::size_t k = 1; k < lane_numbers; ++k) largest = most[k] > largest ? most[k] : largest;

    lane_sum sums;
    for (std::size_t i = 0; i < whole; i += lane_numbers) {
        const number_lane distance = *reinterpret_cast<const loose_number_lane*>(x + i) - largest;
        number_lane made;
        exponential(distance, made);
        *reinterpret_cast<loose_number_lane*>(x + i) = made;
        sums.add(made);
    }
    if (whole != count) {
        number_lane made;
        rest_of_row(x + whole, count - whole, -__builtin_inff(), rest);
        const number_lane distance = rest - largest;
        exponential(distance, made);
        for (std::size_t k = 0; k < count - whole; ++k) x[whole + k] = made[k];
        // Beyond the row they are 0, but NaN where the largest number is not finite, as all of the row then is.
        sums.add(made);
    }
    float sum = 0, lost = 0;
    for (std::size_t k = 0; k < lane_numbers; ++k) {
        const float wanted = sums.sum[k] - (sums.lost[k] + lost), made = sum + wanted;
        lost = (made - sum) - wanted;
        sum = made;
    }
    const float scale = 1 / sum;
    for (std::size_t i = 0; i < whole; i += lane_numbers)
        *reinterpret_cast<loose_number_lane*>(x + i) = *reinterpret_cast<const loose_number_lane*>(x + i) * scale;
    for (std::size_t i = whole; i < count; ++i) x[i] *= scale;
}

constexpr vector_math vector_math_of_this_unit = {&over<exponential_lane>, &over<sigmoid_lane>, &over<tangent_lane>,
                                                  &over<error_lane>, &softmax_of_row};

}  // namespace
}  // namespace sluice::kernels
