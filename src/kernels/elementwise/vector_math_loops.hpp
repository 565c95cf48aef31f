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

// 0.5 x (1 + erf(x / sqrt(2))), as activated<activation::gelu>.
[[gnu::always_inline]] inline void gelu_lane(const number_lane& x, number_lane& to) {
    const number_lane scaled = x * 0.70710678118654752f;
    number_lane part;
    error_function(scaled, part);
    to = 0.5f * x * (1.0f + part);
}
[[gnu::always_inline]] inline void exponential_lane(const number_lane& x, number_lane& to) { exponential(x, to); }
[[gnu::always_inline]] inline void sigmoid_lane(const number_lane& x, number_lane& to) { sigmoid(x, to); }
[[gnu::always_inline]] inline void tangent_lane(const number_lane& x, number_lane& to) { hyperbolic_tangent(x, to); }
[[gnu::always_inline]] inline void error_lane(const number_lane& x, number_lane& to) { error_function(x, to); }

// --- in f64 ------------------------------------------------------------------------------------------------------

// Of f64 numbers, half as many at a time: what is off by less than 1e-9 there is the nearest f32 number, or next to it.
constexpr std::size_t wide_numbers = lane_bytes / sizeof(double);
using wide_lane __attribute__((vector_size(lane_bytes))) = double;
using loose_wide_lane __attribute__((vector_size(lane_bytes), aligned(8))) = double;
using wide_bits __attribute__((vector_size(lane_bytes))) = long long;
using half_lane __attribute__((vector_size(lane_bytes / 2))) = float;
using loose_half_lane __attribute__((vector_size(lane_bytes / 2), aligned(4))) = float;
constexpr double wide_rounding = 6'755'399'441'055'744;  // 1.5 * 2^52: what is added to it is rounded to a whole number
constexpr double wide_infinity = __builtin_inf();

// (g++ 12 would convert halves of a vector and join them.)
[[gnu::always_inline]] inline void widen(const half_lane& from, wide_lane& to) {
#if defined(__AVX512F__)
    to = reinterpret_cast<wide_lane>(_mm512_maskz_cvtps_pd(0xff, reinterpret_cast<__m256>(from)));
#else
    to = __builtin_convertvector(from, wide_lane);
#endif
}
[[gnu::always_inline]] inline void narrow(const wide_lane& from, half_lane& to) {
#if defined(__AVX512F__)
    to = reinterpret_cast<half_lane>(_mm512_maskz_cvtpd_ps(0xff, reinterpret_cast<__m512d>(from)));
#else
    to = __builtin_convertvector(from, half_lane);
#endif
}

[[gnu::always_inline]] inline void add_wide(wide_lane& sum, const wide_lane& a, const wide_lane& b) {
#if defined(__AVX512F__)
    sum = reinterpret_cast<wide_lane>(
        _mm512_fmadd_pd(reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(sum)));
#elif defined(__FMA__)
    sum = reinterpret_cast<wide_lane>(
        _mm256_fmadd_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(sum)));
#else
    sum += a * b;
#endif
}
template <std::size_t Count>
[[gnu::always_inline]] inline void series(const double (&coefficients)[Count], const wide_lane& x, wide_lane& to) {
    wide_lane made = wide_lane{} + coefficients[Count - 1];
    for (std::size_t k = Count - 1; k-- > 0;) {
        wide_lane next = wide_lane{} + coefficients[k];
        add_wide(next, made, x);
        made = next;
    }
    to = made;
}
[[gnu::always_inline]] inline void wide_magnitude(const wide_lane& x, wide_lane& to) {
    to = reinterpret_cast<wide_lane>(reinterpret_cast<wide_bits>(x) & 0x7fff'ffff'ffff'ffff);
}
[[gnu::always_inline]] inline void wide_sign(const wide_lane& x, wide_lane& size) {
    size = reinterpret_cast<wide_lane>((reinterpret_cast<wide_bits>(x) & ~0x7fff'ffff'ffff'ffff) |
                                       reinterpret_cast<wide_bits>(size));
}

// log((1 + s) / (1 - s)) = 2 s + 2 s^3 / 3 + ..., off by less than 1e-11 for s^2 <= 1 / 9.
[[gnu::always_inline]] inline void logarithm_of_quotient(const wide_lane& s, wide_lane& to) {
    constexpr double p[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                            2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    wide_lane made;
    series(p, s * s, made);
    to = s * made;
}

// Of numbers above 0 that are finite and normal: x = 2^n m with m between the roots of 1/2 and of 2, so that s^2 in the
// series above is at most 0.0295, and seven terms are off by less than 2e-12.
[[gnu::always_inline]] inline void wide_logarithm(const wide_lane& x, wide_lane& to) {
    using wide_unsigned __attribute__((vector_size(lane_bytes))) = unsigned long long;
    constexpr double ln2 = 0.693147180559945309417;
    constexpr unsigned long long root_of_half = 0x3fe6'a09e'667f'3bcd, exponents = 0xfff0'0000'0000'0000,
                                 bias = 0x4000'0000'0000'0000, two_to_52 = 0x4330'0000'0000'0000;
    const wide_unsigned bits = reinterpret_cast<wide_unsigned>(x), distance = bits - root_of_half;
    const wide_lane m = reinterpret_cast<wide_lane>(bits - (distance & exponents));
    const wide_unsigned n = (distance + bias) >> 52;  // and 1024
    const wide_lane whole = reinterpret_cast<wide_lane>(n | two_to_52) - (4'503'599'627'370'496.0 + 1024);
    constexpr double p[] = {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13};
    const wide_lane s = (m - 1.0) / (m + 1.0);
    wide_lane made;
    series(p, s * s, made);
    to = s * made;
    add_wide(to, whole, wide_lane{} + ln2);
}

// exp(x) is made * 2^n, off by 7e-12, for |x| <= 1400.
[[gnu::always_inline]] inline void exponential_parts(const wide_lane& x, wide_lane& made, wide_bits& n) {
    constexpr double p[] = {1.0,       1.0,       1.0 / 2,     1.0 / 6,      1.0 / 24,
                            1.0 / 120, 1.0 / 720, 1.0 / 5'040, 1.0 / 40'320, 1.0 / 362'880};
    wide_lane shifted = wide_lane{} + wide_rounding;
    add_wide(shifted, x, wide_lane{} + 1.44269504088896340736);
    const wide_lane whole = shifted - wide_rounding;
    wide_lane r = x;
    add_wide(r, whole, wide_lane{} - 0.693147180369123816490);
    add_wide(r, whole, wide_lane{} - 1.90821492927058770002e-10);
    series(p, r, made);
    n = reinterpret_cast<wide_bits>(shifted) - reinterpret_cast<wide_bits>(wide_lane{} + wide_rounding);
}
// 2^n for -1023 < n < 1024
[[gnu::always_inline]] inline void power_of_two(const wide_bits& n, wide_lane& to) {
    to = reinterpret_cast<wide_lane>((n + 1023) << 52);
}
// NaN stays.
[[gnu::always_inline]] inline void limit(const wide_lane& x, double most, wide_lane& to) {
    to = x > most ? wide_lane{} + most : x;
    to = to < -most ? wide_lane{} - most : to;
}

// exp(x); beyond 700 it is that of 700, which no f32 number is.
[[gnu::always_inline]] inline void wide_exponential(const wide_lane& x, wide_lane& to) {
    wide_lane limited, made, power;
    wide_bits n;
    limit(x, 700, limited);
    exponential_parts(limited, made, n);
    power_of_two(n, power);
    to = made * power;
}
// The same of any number. 2^n is two factors: of a result that is too large or small for one.
[[gnu::always_inline]] inline void wide_exponential_of_any(const wide_lane& x, wide_lane& to) {
    wide_lane limited, made, first, second;
    wide_bits n;
    limit(x, 1400, limited);
    exponential_parts(limited, made, n);
    const wide_bits half = n >> 1;
    power_of_two(half, first);
    power_of_two(n - half, second);
    to = made * first * second;
}

[[gnu::always_inline]] inline void logarithm_lane(const wide_lane& x, wide_lane& to, wide_bits&) {
    wide_lane made;
    wide_logarithm(x, made);
    const wide_lane none = x == 0.0 ? wide_lane{} - wide_infinity : wide_lane{} + __builtin_nan("");
    made = x > 0.0 ? made : none;
    to = x == wide_infinity ? x : made;
}

// max(x, 0) + log(1 + exp(-|x|))
[[gnu::always_inline]] inline void softplus_lane(const wide_lane& x, wide_lane& to, wide_bits&) {
    wide_lane size, falling, made;
    wide_magnitude(x, size);
    wide_exponential(-size, falling);
    logarithm_of_quotient(falling / (falling + 2.0), made);
    to = (x > 0.0 ? x : wide_lane{}) + made;
}

// With u = |x|, or 1 / |x| beyond 1, and t = u, or (u - 1) / (u + 1) beyond tan(pi / 8): t - t^3 / 3 + ..., off by
// 2e-11.
[[gnu::always_inline]] inline void arctangent_lane(const wide_lane& x, wide_lane& to, wide_bits&) {
    constexpr double p[] = {1.0,       -1.0 / 3, 1.0 / 5,   -1.0 / 7, 1.0 / 9,   -1.0 / 11, 1.0 / 13,
                            -1.0 / 15, 1.0 / 17, -1.0 / 19, 1.0 / 21, -1.0 / 23, 1.0 / 25};
    constexpr double quarter = 0.785398163397448309616, half = 1.57079632679489661923;
    wide_lane size, rest;
    wide_magnitude(x, size);
    const wide_lane one = wide_lane{} + 1.0, u = size > one ? one / size : size;
    const wide_bits is_large = u > 0.414213562373095;
    const wide_lane t = is_large ? (u - one) / (u + one) : u;
    series(p, t * t, rest);
    wide_lane made = (is_large ? wide_lane{} + quarter : wide_lane{}) + t * rest;
    made = size > one ? half - made : made;
    wide_sign(x, made);
    to = made;
}

// sin(x + turns * pi / 2) for |x| < 2^20. The rest of x by pi / 2 is exact but for what f64 rounds at the end.
[[gnu::always_inline]] inline void turned_sine(const wide_lane& x, long long turns, wide_lane& to, wide_bits& special) {
    constexpr double s[] = {1.0,           -1.0 / 6,          1.0 / 120,          -1.0 / 5'040,
                            1.0 / 362'880, -1.0 / 39'916'800, 1.0 / 6'227'020'800};
    constexpr double c[] = {1.0,          -1.0 / 2,         1.0 / 24,          -1.0 / 720,
                            1.0 / 40'320, -1.0 / 3'628'800, 1.0 / 479'001'600, -1.0 / 87'178'291'200};
    wide_lane size;
    wide_magnitude(x, size);
    special = ~(size < 1'048'576.0);
    wide_lane shifted = wide_lane{} + wide_rounding;
    add_wide(shifted, x, wide_lane{} + 0.636619772367581343076);
    const wide_lane whole = shifted - wide_rounding;
    wide_lane r = x, sine, cosine;
    add_wide(r, whole, wide_lane{} - 1.57079632673412561417);
    add_wide(r, whole, wide_lane{} - 6.07710050630396597660e-11);
    add_wide(r, whole, wide_lane{} - 2.02226624879595063154e-21);
    const wide_lane square = r * r;
    series(s, square, sine);
    series(c, square, cosine);
    const wide_bits quarter = reinterpret_cast<wide_bits>(shifted) + turns;
    const wide_lane made = (quarter & 1) != 0 ? cosine : r * sine;
    to = reinterpret_cast<wide_lane>(reinterpret_cast<wide_bits>(made) ^ ((quarter & 2) << 62));
}
[[gnu::always_inline]] inline void sine_lane(const wide_lane& x, wide_lane& to, wide_bits& special) {
    turned_sine(x, 0, to, special);
}
[[gnu::always_inline]] inline void cosine_lane(const wide_lane& x, wide_lane& to, wide_bits& special) {
    turned_sine(x, 1, to, special);
}

using wide_function = void (*)(const wide_lane&, wide_lane&, wide_bits&);
using alone_function = float (*)(float);
inline float no_function(float x) { return x; }
inline float sine_alone(float x) { return __builtin_sinf(x); }
inline float cosine_alone(float x) { return __builtin_cosf(x); }

[[gnu::always_inline]] inline bool is_any(const wide_bits& of) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask(reinterpret_cast<__m512i>(of), reinterpret_cast<__m512i>(of)) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_pd(reinterpret_cast<__m256d>(of)) != 0;
#else
    long long made = 0;
    for (std::size_t k = 0; k < wide_numbers; ++k) made |= of[k];
    return made != 0;
#endif
}

// The numbers that a lane says are special are taken one by one.
template <wide_function Apply, alone_function Alone>
[[gnu::always_inline]] inline void wide_step(const half_lane& x, half_lane& y) {
    wide_lane each, made;
    widen(x, each);
    wide_bits special = {};
    Apply(each, made, special);
    narrow(made, y);
    if (Alone != &no_function && is_any(special))
        for (std::size_t k = 0; k < wide_numbers; ++k)
            if (special[k] != 0) y[k] = Alone(x[k]);
}
template <wide_function Apply, alone_function Alone>
void over_wide(const float* x, float* y, std::size_t count) noexcept {
    std::size_t i = 0;
    for (; i + wide_numbers <= count; i += wide_numbers) {
        const half_lane each = *reinterpret_cast<const loose_half_lane*>(x + i);
        half_lane made;
        wide_step<Apply, Alone>(each, made);
        *reinterpret_cast<loose_half_lane*>(y + i) = made;
    }
    if (i == count) return;
    half_lane last = half_lane{} + 1.0f, made;
    for (std::size_t k = 0; k < count - i; ++k) last[k] = x[i + k];
    wide_step<Apply, Alone>(last, made);
    for (std::size_t k = 0; k < count - i; ++k) y[i + k] = made[k];
}

void over_wide_exponential(const double* x, double* y, std::size_t count) noexcept {
    std::size_t i = 0;
    wide_lane made;
    for (; i + wide_numbers <= count; i += wide_numbers) {
        const wide_lane each = *reinterpret_cast<const loose_wide_lane*>(x + i);
        wide_exponential_of_any(each, made);
        *reinterpret_cast<loose_wide_lane*>(y + i) = made;
    }
    if (i == count) return;
    wide_lane some = {};
    for (std::size_t k = 0; k < count - i; ++k) some[k] = x[i + k];
    wide_exponential_of_any(some, made);
    for (std::size_t k = 0; k < count - i; ++k) y[i + k] = made[k];
}

// exp(b log |a|), with the sign of a where b is odd; NaN for a below 0 where b is no whole number. Zeros, infinities
// and NaN are taken one by one.
[[gnu::always_inline]] inline void power_lane(const wide_lane& a, const wide_lane& b, wide_lane& to,
                                              wide_bits& special) {
    constexpr double all_even = 16'777'216;  // f32 numbers from here on are even
    wide_lane size, size_of_b, made;
    wide_magnitude(a, size);
    wide_magnitude(b, size_of_b);
    special = ~((size > 0.0) & (size < wide_infinity) & (size_of_b < wide_infinity));
    wide_logarithm(size, made);
    wide_exponential(made * b, made);
    const wide_lane half = b * 0.5;
    const wide_bits is_whole = (size_of_b >= all_even) | ((b + wide_rounding) - wide_rounding == b),
                    is_odd = (size_of_b < all_even) & is_whole & ((half + wide_rounding) - wide_rounding != half);
    const wide_lane signed_one = is_odd ? -made : made;
    const wide_lane of_negative = is_whole ? signed_one : wide_lane{} + __builtin_nan("");
    to = a < 0.0 ? of_negative : made;
}

// Exponents that networks have as constants: in f64 where f32 would round twice. False: another one. (Of -0 and of
// -infinity, pow gives other roots than sqrt.)
bool power_of_one_exponent(const float* a, float exponent, float* y, std::size_t count) noexcept {
    constexpr float infinity = __builtin_inff();
    const auto each = [&](const auto& function) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<float>(function(a[i]));
        return true;
    };
    if (exponent == 1.0f) return each([](float x) { return x; });
    if (exponent == 2.0f) return each([](float x) { return x * x; });
    if (exponent == -1.0f) return each([](float x) { return 1 / x; });
    if (exponent == 0.5f) return each([](float x) { return __builtin_sqrtf((x == -infinity ? infinity : x) + 0.0f); });
    if (exponent == 3.0f) return each([](double x) { return x * x * x; });
    if (exponent == 4.0f) return each([](double x) { return (x * x) * (x * x); });
    if (exponent == -2.0f) return each([](double x) { return 1 / (x * x); });
    if (exponent == -0.5f)
        return each([](double x) { return 1 / __builtin_sqrt((x == -wide_infinity ? wide_infinity : x) + 0.0); });
    return false;
}

// Those exponents here too where others are next to them: what an element gives does not depend on its neighbours.
template <bool HasOthers>
[[gnu::always_inline]] inline void power_step(const half_lane& a, const half_lane& b, half_lane& y) {
    wide_lane wide_a, wide_b, made, size_of_b;
    widen(a, wide_a);
    widen(b, wide_b);
    wide_bits special = {};
    power_lane(wide_a, wide_b, made, special);
    narrow(made, y);
    if (is_any(special))
        for (std::size_t k = 0; k < wide_numbers; ++k)
            if (special[k] != 0) y[k] = __builtin_powf(a[k], b[k]);
    if constexpr (HasOthers) {
        wide_magnitude(wide_b, size_of_b);
        const wide_lane twice = wide_b + wide_b;
        const wide_bits may_be = (size_of_b <= 4.0) & ((twice + wide_rounding) - wide_rounding == twice);
        if (!is_any(may_be)) return;
        for (std::size_t k = 0; k < wide_numbers; ++k) {
            const float one = a[k];
            float power = y[k];
            if (may_be[k] != 0 && power_of_one_exponent(&one, b[k], &power, 1)) y[k] = power;
        }
    }
}

template <bool HasOthers>
void power_by_steps(const float* a, const float* b, float* y, std::size_t count) noexcept {
    std::size_t i = 0;
    for (; i + wide_numbers <= count; i += wide_numbers) {
        const half_lane some_a = *reinterpret_cast<const loose_half_lane*>(a + i),
                        some_b = *reinterpret_cast<const loose_half_lane*>(b + i);
        half_lane made;
        power_step<HasOthers>(some_a, some_b, made);
        *reinterpret_cast<loose_half_lane*>(y + i) = made;
    }
    if (i == count) return;
    half_lane last_a = half_lane{} + 1.0f, last_b = last_a, made;
    for (std::size_t k = 0; k < count - i; ++k) {
        last_a[k] = a[i + k];
        last_b[k] = b[i + k];
    }
    power_step<HasOthers>(last_a, last_b, made);
    for (std::size_t k = 0; k < count - i; ++k) y[i + k] = made[k];
}

void power_of_each(const float* a, const float* b, float* y, std::size_t count) noexcept {
    unsigned others = 0;
    for (std::size_t i = 0; i < count; ++i) others |= b[i] == b[0] ? 0u : 1u;
    if (others != 0) return power_by_steps<true>(a, b, y, count);
    if (count != 0 && !power_of_one_exponent(a, b[0], y, count)) power_by_steps<false>(a, b, y, count);
}

// --- softmax -----------------------------------------------------------------------------------------------------

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

constexpr vector_math vector_math_of_this_unit = {.exponential = &over<exponential_lane>,
                                                  .sigmoid = &over<sigmoid_lane>,
                                                  .hyperbolic_tangent = &over<tangent_lane>,
                                                  .error_function = &over<error_lane>,
                                                  .gelu = &over<gelu_lane>,
                                                  .softmax = &softmax_of_row,
                                                  .logarithm = &over_wide<logarithm_lane, no_function>,
                                                  .softplus = &over_wide<softplus_lane, no_function>,
                                                  .sine = &over_wide<sine_lane, sine_alone>,
                                                  .cosine = &over_wide<cosine_lane, cosine_alone>,
                                                  .arctangent = &over_wide<arctangent_lane, no_function>,
                                                  .wide_exponential = &over_wide_exponential,
                                                  .power = &power_of_each};

}  // namespace
}  // namespace sluice::kernels
