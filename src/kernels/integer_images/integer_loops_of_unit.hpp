// SPDX-License-Identifier: Apache-2.0
// The loops over bytes, for a file that is compiled for one kind of vector unit: it defines SLUICE_LANES, the 32-bit
// numbers of a register, and SLUICE_TILE_PIXELS and SLUICE_TILE_PANELS, the accumulators that its registers hold, and
// includes this once.
//
// Nothing here has external linkage, and no inline function of other headers is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/add_product.hpp"
#include "kernels/integer_images/integer_loops.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t lanes = SLUICE_LANES;
constexpr std::size_t panel_filters = 16;
constexpr int vectors_of_panel = static_cast<int>(panel_filters / lanes);

using floats __attribute__((vector_size(4 * SLUICE_LANES))) = float;
using integers __attribute__((vector_size(4 * SLUICE_LANES))) = std::int32_t;
using shorts __attribute__((vector_size(4 * SLUICE_LANES))) = std::int16_t;
using lane_bytes __attribute__((vector_size(SLUICE_LANES))) = std::uint8_t;
using all_bytes __attribute__((vector_size(4 * SLUICE_LANES))) = std::uint8_t;
// Wherever they are in memory.
using loose_floats __attribute__((vector_size(4 * SLUICE_LANES), aligned(4), may_alias)) = float;
using loose_integers __attribute__((vector_size(4 * SLUICE_LANES), aligned(4), may_alias)) = std::int32_t;
using loose_bytes __attribute__((vector_size(4 * SLUICE_LANES), aligned(1), may_alias)) = std::uint8_t;

// --- numbers to bytes ----------------------------------------------------------------------------------------------

// (g++ 12 makes of such a __builtin_convertvector one instruction for each byte.)
[[gnu::always_inline]] inline void widen_lane(const lane_bytes& some, integers& to) {
#if defined(__AVX512BW__)
    to = reinterpret_cast<integers>(_mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(some)));
#elif defined(__AVX2__)
    to = reinterpret_cast<integers>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&some))));
#else
    to = __builtin_convertvector(some, integers);
#endif
}
// Fewer than a register has: the rest is 0.
[[gnu::always_inline]] inline void widen_bytes(const std::uint8_t* x, std::size_t count, integers& to) {
    lane_bytes some = {};
    if (count >= lanes) {
        memcpy(&some, x, lanes);
    } else {
        memcpy(&some, x, count);
    }
    widen_lane(some, to);
}

// How quotients become bytes.
struct byte_rounding {
    std::int32_t zero, least;  // least: of the bytes, with ReLU the zero point

    [[gnu::always_inline]] explicit byte_rounding(const byte_end& end)
        : zero(end.quantity.zero), least(end.has_relu && zero > 0 ? zero : 0) {}
};

// The nearest integers plus the zero point, halves to even, within a byte; NaN becomes the smallest. Far from the bytes
// any number is as far. All lanes, or `count` of them.
template <bool AreAll>
[[gnu::always_inline]] inline void store_quotients(const floats& given, const byte_rounding& by, std::size_t count,
                                                   std::uint8_t* to) {
#if defined(__AVX512BW__)
    constexpr __mmask16 all = 0xffff;  // (without it g++ 12 warns of variables that are not initialized)
    // Of a pair with NaN, minps gives the second; and NaN becomes the smallest integer.
    const __m512 some = _mm512_maskz_min_ps(all, _mm512_set1_ps(0x1p20f), reinterpret_cast<__m512>(given));
    const integers whole = reinterpret_cast<integers>(_mm512_maskz_cvtps_epi32(all, some)) + by.zero;
    const integers least = integers{} + by.least;
    const integers bytes = whole > least ? whole : least;
    const __m128i made = _mm512_maskz_cvtusepi32_epi8(all, reinterpret_cast<__m512i>(bytes));
#else
    constexpr float far = 0x1p20f, shift = 0x1.8p23f;
    const floats least = floats{} + static_cast<float>(by.least);
    floats q = given > -far ? given : floats{} - far;
    q = q < far ? q : floats{} + far;
    q = (q + shift) - shift + static_cast<float>(by.zero);
    q = q > least ? q : least;
    q = q < 255 ? q : floats{} + 255;
    const integers whole = __builtin_convertvector(q, integers);
#if defined(__AVX2__)
    const auto all = reinterpret_cast<__m256i>(whole);
    const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    const __m128i made = _mm_packus_epi16(pairs, pairs);
#else
    const lane_bytes made = __builtin_convertvector(whole, lane_bytes);
#endif
#endif
    if constexpr (AreAll) {
        memcpy(to, &made, lanes);
    } else {
        memcpy(to, &made, count < lanes ? count : lanes);
    }
}

// What QuantizeLinear makes of the numbers, perhaps after ReLU. A product by the inverse differs from the quotient by
// less than `near` wherever the integer is not far from the bytes: so the integer differs only where the product is
// that near to a half, and there it is divided.
[[gnu::always_inline]] inline void store_numbers(const floats& numbers, const byte_end& end, std::size_t count,
                                                 std::uint8_t* to) {
#if defined(__AVX512BW__)
    constexpr float near = 0x1p-12f;
    floats q = numbers * end.inverse;
    const __m512 rest = _mm512_maskz_reduce_ps(0xffff, reinterpret_cast<__m512>(q), _MM_FROUND_TO_NEAREST_INT);
    const auto distance = reinterpret_cast<integers>(rest) & 0x7fff'ffff;
    const __mmask16 is_near =
        _mm512_cmp_ps_mask(reinterpret_cast<__m512>(distance), _mm512_set1_ps(0.5f - near), _CMP_GT_OQ);
    if (__builtin_expect(is_near != 0, 0)) q = numbers / end.quantity.scale;
#else
    const floats q = numbers / end.quantity.scale;
#endif
    const byte_rounding by(end);
    if (count >= lanes) {
        store_quotients<true>(q, by, lanes, to);
    } else {
        store_quotients<false>(q, by, count, to);
    }
}

// From the sums of some filters of one pixel, as quantized_product.hpp says.
template <bool AreAll>
[[gnu::always_inline]] inline void finish(const integers& sums, const floats& factor, const floats& bias, float inverse,
                                          const byte_rounding& by, std::size_t count, std::uint8_t* to) {
    const floats whole = __builtin_convertvector(sums, floats);
    floats real = bias;
    add_product(real, whole, factor);
    store_quotients<AreAll>(real * inverse, by, count, to);
}

// --- products ------------------------------------------------------------------------------------------------------

// A byte of each lane times a weight.
[[maybe_unused, gnu::always_inline]] inline void add_product_of_bytes(const integers& x, const integers& weights,
                                                                      integers& to) {
#if defined(__AVX512BW__)
    to += reinterpret_cast<integers>(
        _mm512_madd_epi16(reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(weights & 0xffff)));
#elif defined(__AVX2__)
    to += reinterpret_cast<integers>(
        _mm256_madd_epi16(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(weights & 0xffff)));
#else
    to += x * weights;
#endif
}

// From the filter `first` on. (Copies: the bytes that are written could be a part of what `of` refers to.)
template <int Pixels, int Vectors, bool AreAll>
[[gnu::always_inline]] inline void finish_tile(const integers (&sums)[Pixels][Vectors], const convolved_tile& of,
                                               std::size_t pixel, std::size_t first) {
    const byte_rounding by(of.end);
    const float inverse = of.end.inverse;
    const std::size_t filters = of.filters;
    const float *const factors = of.factors + first, *const biases = of.biases + first;
    std::uint8_t* const* const out = of.out + pixel;
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
        const std::size_t at = static_cast<std::size_t>(v) * lanes;
        if (!AreAll && first + at >= filters) return;
        const floats factor = *reinterpret_cast<const loose_floats*>(factors + at),
                     bias = *reinterpret_cast<const loose_floats*>(biases + at);
#pragma GCC unroll 14
        for (int p = 0; p < Pixels; ++p)
            finish<AreAll>(sums[p][v], factor, bias, inverse, by, filters - first - at, out[p] + first + at);
    }
}

// `Pixels` pixels by `Panels` panels.
template <int Pixels, int Panels>
[[gnu::always_inline]] inline void multiply(const convolved_tile& of, std::size_t pixel, std::size_t panel) {
    constexpr int across = Panels * vectors_of_panel;
    const std::size_t panel_bytes = of.panel_bytes, first = panel * panel_filters;
    const std::byte* weights = of.weights + panel * panel_bytes;
    integers sums[Pixels][across];
    for (int v = 0; v < across; ++v) {
        const integers start =
            *reinterpret_cast<const loose_integers*>(of.starts + first + static_cast<std::size_t>(v) * lanes);
        for (int p = 0; p < Pixels; ++p) sums[p][v] = start;
    }
    const std::uint8_t* const* const x = of.x + pixel;
    const std::size_t fours = of.fours;
    for (std::size_t row = 0; row < of.rows; ++row) {
        for (std::size_t column = 0; column < of.columns; ++column) {
            const std::size_t from = row * of.row_step + column * of.column_step;
            for (std::size_t k = 0; k < fours; ++k, weights += 4 * panel_filters) {
                integers four[across];
                for (int v = 0; v < across; ++v)
                    four[v] = *reinterpret_cast<const loose_integers*>(
                        weights + static_cast<std::size_t>(v / vectors_of_panel) * panel_bytes +
                        static_cast<std::size_t>(v % vectors_of_panel) * 4 * lanes);
#pragma GCC unroll 14
                for (int p = 0; p < Pixels; ++p) {
                    std::uint32_t inputs;
                    memcpy(&inputs, x[p] + from + 4 * k, sizeof(inputs));
                    for (int v = 0; v < across; ++v) add_four_products(four[v], inputs, sums[p][v]);
                }
            }
        }
    }
    if (first + across * lanes <= of.filters) {
        finish_tile<Pixels, across, true>(sums, of, pixel, first);
    } else {
        finish_tile<Pixels, across, false>(sums, of, pixel, first);
    }
}

// All filters of `Pixels` pixels.
template <int Pixels>
[[gnu::noinline]] void multiply_pixels(const convolved_tile& of, std::size_t pixel) {
    const std::size_t panels = (of.filters + panel_filters - 1) / panel_filters;
    std::size_t panel = 0;
    for (; panel + SLUICE_TILE_PANELS <= panels; panel += SLUICE_TILE_PANELS)
        multiply<Pixels, SLUICE_TILE_PANELS>(of, pixel, panel);
    for (; panel < panels; ++panel) multiply<Pixels, 1>(of, pixel, panel);
}
template <int Pixels>
void multiply_at_most(const convolved_tile& of, std::size_t pixel, std::size_t pixels) {
    if (pixels == Pixels) return multiply_pixels<Pixels>(of, pixel);
    if constexpr (Pixels > 1) multiply_at_most<Pixels - 1>(of, pixel, pixels);
}

// In tiles of about equal width.
void convolve_tile(const convolved_tile& of) {
    constexpr std::size_t most = SLUICE_TILE_PIXELS;
    const std::size_t tiles = (of.pixels + most - 1) / most;
    for (std::size_t tile = 0, pixel = 0; tile < tiles; ++tile) {
        const std::size_t pixels = (of.pixels - pixel + tiles - tile - 1) / (tiles - tile);
        multiply_at_most<SLUICE_TILE_PIXELS>(of, pixel, pixels);
        pixel += pixels;
    }
}

// Four taps of as many channels as a register has: [channels][4] bytes.
#if defined(__AVX512VNNI__)
[[gnu::always_inline]] inline void join_taps(const std::uint8_t* x, const std::size_t* taps, integers& to) {
    const auto bytes = [&](int tap) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + taps[tap])); };
#if defined(__AVX512VBMI__)
    alignas(64) static constexpr std::uint8_t order[64] = {
        0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51, 4,  20, 36, 52, 5,  21,
        37, 53, 6,  22, 38, 54, 7,  23, 39, 55, 8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58,
        11, 27, 43, 59, 12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};
    const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes(0)), bytes(1), 1);
    const __m256i second = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes(2)), bytes(3), 1);
    const __m512i all = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(first), second, 1);
    to = reinterpret_cast<integers>(_mm512_maskz_permutexvar_epi8(~__mmask64{0}, _mm512_load_si512(order), all));
#else
    const __m128i a = bytes(0), b = bytes(1), c = bytes(2), d = bytes(3);
    const __m128i first = _mm_unpacklo_epi8(a, b), second = _mm_unpackhi_epi8(a, b);
    const __m128i third = _mm_unpacklo_epi8(c, d), fourth = _mm_unpackhi_epi8(c, d);
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(first, third)),
                                                _mm_unpackhi_epi16(first, third), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(second, fourth)),
                                                 _mm_unpackhi_epi16(second, fourth), 1);
    to = reinterpret_cast<integers>(_mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1));
#endif
}
#endif

// Neighbouring pixels by the filters of as many channels as a register has.
template <int Pixels>
[[gnu::always_inline]] inline void multiply_channels(const convolved_channels& of, std::size_t pixel, std::size_t c) {
    const std::size_t columns = (of.channels + panel_filters - 1) / panel_filters * panel_filters;
    const std::size_t all = of.rows * of.columns;
    const std::uint8_t* const x = of.x + pixel * of.x_step + c;
    const std::byte* weights = of.weights + c * 4;
    integers sums[Pixels];
    for (int p = 0; p < Pixels; ++p) sums[p] = *reinterpret_cast<const loose_integers*>(of.starts + c);
    std::size_t row = 0, column = 0;
    for (std::size_t first = 0; first < all; first += 4, weights += columns * 4) {
        std::size_t taps[4] = {};  // there are zeros for those that are none
        for (std::size_t t = 0; t < 4 && first + t < all; ++t) {
            taps[t] = row * of.row_step + column * of.column_step;
            if (++column == of.columns) {
                column = 0;
                ++row;
            }
        }
        const integers four = *reinterpret_cast<const loose_integers*>(weights);
#if defined(__AVX512VNNI__)
        for (int p = 0; p < Pixels; ++p) {
            integers inputs;
            join_taps(x + static_cast<std::size_t>(p) * of.x_step, taps, inputs);
            sums[p] = reinterpret_cast<integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums[p]),
                                                                     reinterpret_cast<__m512i>(inputs),
                                                                     reinterpret_cast<__m512i>(four)));
        }
#else
        for (std::size_t t = 0; t < 4 && first + t < all; ++t) {
            const integers by = (four << static_cast<int>(24 - 8 * t)) >> 24;
            for (int p = 0; p < Pixels; ++p) {
                lane_bytes some;
                memcpy(&some, x + static_cast<std::size_t>(p) * of.x_step + taps[t], sizeof(some));
                integers wide;
                widen_lane(some, wide);
                add_product_of_bytes(wide, by, sums[p]);
            }
        }
#endif
    }
    const byte_rounding by(of.end);
    const float inverse = of.end.inverse;
    const std::size_t count = of.channels - c, step = of.out_step;
    const floats factor = *reinterpret_cast<const loose_floats*>(of.factors + c),
                 bias = *reinterpret_cast<const loose_floats*>(of.biases + c);
    std::uint8_t* const out = of.out + pixel * step + c;
    if (count >= lanes) {
#pragma GCC unroll 14
        for (int p = 0; p < Pixels; ++p)
            finish<true>(sums[p], factor, bias, inverse, by, lanes, out + static_cast<std::size_t>(p) * step);
    } else {
        for (int p = 0; p < Pixels; ++p)
            finish<false>(sums[p], factor, bias, inverse, by, count, out + static_cast<std::size_t>(p) * step);
    }
}

void convolve_row_of_channels(const convolved_channels& of) {
    constexpr int most = 6;
    for (std::size_t c = 0; c < of.channels; c += lanes) {
        std::size_t pixel = 0;
        for (; pixel + most <= of.pixels; pixel += most) multiply_channels<most>(of, pixel, c);
        for (; pixel < of.pixels; ++pixel) multiply_channels<1>(of, pixel, c);
    }
}

// --- bytes -----------------------------------------------------------------------------------------------------------

void take_larger_bytes(const std::uint8_t* x, std::size_t count, std::uint8_t* to) {
    std::size_t i = 0;
    for (; i + sizeof(all_bytes) <= count; i += sizeof(all_bytes)) {
        const all_bytes a = *reinterpret_cast<const loose_bytes*>(x + i);
        const all_bytes b = *reinterpret_cast<const loose_bytes*>(to + i);
        *reinterpret_cast<loose_bytes*>(to + i) = a > b ? a : b;
    }
    using sixteen __attribute__((vector_size(16))) = std::uint8_t;
    using loose_sixteen __attribute__((vector_size(16), aligned(1), may_alias)) = std::uint8_t;
    for (; i + sizeof(sixteen) <= count; i += sizeof(sixteen)) {
        const sixteen a = *reinterpret_cast<const loose_sixteen*>(x + i);
        const sixteen b = *reinterpret_cast<const loose_sixteen*>(to + i);
        *reinterpret_cast<loose_sixteen*>(to + i) = a > b ? a : b;
    }
    for (; i < count; ++i) to[i] = x[i] > to[i] ? x[i] : to[i];
}

void quantize_numbers(const float* x, std::size_t count, const byte_end& end, std::uint8_t* to) {
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const floats some = *reinterpret_cast<const loose_floats*>(x + i);
        store_numbers(some, end, lanes, to + i);
    }
    if (i == count) return;
    floats some = {};
    memcpy(&some, x + i, (count - i) * sizeof(float));
    store_numbers(some, end, count - i, to + i);
}

void map_bytes(const std::uint8_t* table, const std::uint8_t* x, std::size_t count, std::uint8_t* to) {
    std::size_t i = 0;
#if defined(__AVX512VBMI__)
    __m512i quarters[4];
    for (int q = 0; q < 4; ++q) quarters[q] = _mm512_loadu_si512(table + 64 * q);
    for (; i < count; i += 64) {
        const __mmask64 some = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
        const __m512i at = _mm512_maskz_loadu_epi8(some, x + i);
        const __m512i low = _mm512_permutex2var_epi8(quarters[0], at, quarters[1]);
        const __m512i high = _mm512_permutex2var_epi8(quarters[2], at, quarters[3]);
        _mm512_mask_storeu_epi8(to + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
    }
#endif
    for (; i < count; ++i) to[i] = table[x[i]];
}

void combine_bytes(const combined_bytes& given) {
    const combined_bytes of = given;
    for (std::size_t i = 0; i < of.count; i += lanes) {
        integers x, y = integers{} + static_cast<std::int32_t>(*of.y);
        widen_bytes(of.x + i, of.count - i, x);
        if (!of.y_is_one) widen_bytes(of.y + i, of.count - i, y);
        // Each is rounded, as DequantizeLinear does: so this is no product with an addition.
        const floats a = __builtin_convertvector(x - of.of_x.zero, floats) * of.of_x.scale;
        const floats b = __builtin_convertvector(y - of.of_y.zero, floats) * of.of_y.scale;
        const floats made = of.multiplies ? a * b : a + b;
        store_numbers(made, of.end, of.count - i, of.out + i);
    }
}

void average_bytes(const averaged_pixel& given) {
    const averaged_pixel of = given;
    const auto pixels = static_cast<std::int32_t>(of.rows * of.columns);
    for (std::size_t c = 0; c < of.channels; c += lanes) {
        integers sum = integers{} - of.of_x.zero * pixels;
        for (std::size_t row = 0; row < of.rows; ++row) {
            for (std::size_t column = 0; column < of.columns; ++column) {
                integers some;
                widen_bytes(of.x + row * of.row_step + column * of.column_step + c, of.channels - c, some);
                sum += some;
            }
        }
        floats made = __builtin_convertvector(sum, floats) * of.of_x.scale;
        if (of.counted != 0) made = made / static_cast<float>(of.counted);
        store_numbers(made, of.end, of.channels - c, of.out + c);
    }
}

void dequantize_bytes(const std::uint8_t* x, std::size_t count, const byte_quantity& as, float* to) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = static_cast<float>(static_cast<std::int32_t>(x[i]) - as.zero) * as.scale;
}

constexpr integer_loops loops_of_this_unit = {
    &convolve_tile, &convolve_row_of_channels, &take_larger_bytes, &quantize_numbers, &map_bytes, &combine_bytes,
    &average_bytes, &dequantize_bytes};

}  // namespace
}  // namespace sluice::kernels
