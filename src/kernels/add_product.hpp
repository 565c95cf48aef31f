// SPDX-License-Identifier: Apache-2.0
// Products that are added to sums, for files that are compiled for one kind of vector unit. add_product says how each
// is rounded. Without it the compiler decides, for each loop alone: g++ 13 joins a product and a sum in loops over
// several rows and not in the loop over one row (avoid-fma-max-bits), so that the bits of a row depended on its batch.
// These files are compiled with -ffp-contract=off.
//
// Nothing here has external linkage: the linker could take this file's instance of it for the whole program, on a
// processor without the unit.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace sluice::kernels {
namespace {

// sum += a * b, rounded once where the unit has an instruction for that, else twice. A vector of the source is one of
// the unit's or several. (Vectors are no results: the calling convention for them depends on the unit.)
template <typename Vector>
[[gnu::always_inline]] inline void add_product(Vector& sum, const Vector& a, const Vector& b) {
#if defined(__AVX512F__)
    static_assert(sizeof(Vector) == sizeof(__m512));
    sum = reinterpret_cast<Vector>(
        _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(sum)));
#elif defined(__FMA__)
    auto* const to = reinterpret_cast<__m256*>(&sum);  // may alias
    const auto* const of_a = reinterpret_cast<const __m256*>(&a);
    const auto* const of_b = reinterpret_cast<const __m256*>(&b);
    for (std::size_t i = 0; i < sizeof(Vector) / sizeof(__m256); ++i) to[i] = _mm256_fmadd_ps(of_a[i], of_b[i], to[i]);
#elif defined(__aarch64__)
    auto* const to = reinterpret_cast<float32x4_t*>(&sum);
    const auto* const of_a = reinterpret_cast<const float32x4_t*>(&a);
    const auto* const of_b = reinterpret_cast<const float32x4_t*>(&b);
    for (std::size_t i = 0; i < sizeof(Vector) / sizeof(float32x4_t); ++i) to[i] = vfmaq_f32(to[i], of_a[i], of_b[i]);
#else
    sum += a * b;
#endif
}

// The same with one number for the whole vector.
template <typename Vector>
[[gnu::always_inline]] inline void add_product(Vector& sum, float a, const Vector& b) {
    const Vector each = a - Vector{};  // - 0 keeps the sign of a 0
    add_product(sum, each, b);
}

// To each lane of 32-bit integers the products of its four signed bytes and the four unsigned ones of `inputs`,
// exactly. A vector of the source is one of the unit's.
template <typename Integers>
[[gnu::always_inline]] inline void add_four_products(const Integers& weights, std::uint32_t inputs, Integers& to) {
#if defined(__AVX512VNNI__)
    to = reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(to),
                                                        _mm512_set1_epi32(static_cast<std::int32_t>(inputs)),
                                                        reinterpret_cast<__m512i>(weights)));
#elif defined(__SSE2__)
    using shorts __attribute__((vector_size(sizeof(Integers)))) = std::int16_t;
    const shorts pairs = reinterpret_cast<shorts>(weights);
    const Integers odd = reinterpret_cast<Integers>(pairs >> 8), even = reinterpret_cast<Integers>((pairs << 8) >> 8);
    const auto of_even = static_cast<std::int32_t>(inputs & 0x00ff'00ffu);
    const auto of_odd = static_cast<std::int32_t>((inputs >> 8) & 0x00ff'00ffu);
#if defined(__AVX512BW__)
    to += reinterpret_cast<Integers>(_mm512_madd_epi16(reinterpret_cast<__m512i>(even), _mm512_set1_epi32(of_even))) +
          reinterpret_cast<Integers>(_mm512_madd_epi16(reinterpret_cast<__m512i>(odd), _mm512_set1_epi32(of_odd)));
#elif defined(__AVX2__)
    to += reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(even), _mm256_set1_epi32(of_even))) +
          reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(odd), _mm256_set1_epi32(of_odd)));
#else
    to += reinterpret_cast<Integers>(_mm_madd_epi16(reinterpret_cast<__m128i>(even), _mm_set1_epi32(of_even))) +
          reinterpret_cast<Integers>(_mm_madd_epi16(reinterpret_cast<__m128i>(odd), _mm_set1_epi32(of_odd)));
#endif
#else
    using words __attribute__((vector_size(sizeof(Integers)))) = std::uint32_t;
    for (int g = 0; g < 4; ++g) {
        const Integers one = reinterpret_cast<Integers>(reinterpret_cast<words>(weights) << (24 - 8 * g)) >> 24;
        to += static_cast<std::int32_t>((inputs >> (8 * g)) & 0xffu) * one;
    }
#endif
}

}  // namespace
}  // namespace sluice::kernels
