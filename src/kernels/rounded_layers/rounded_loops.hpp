// SPDX-License-Identifier: Apache-2.0
// The loops over rounded factors, for a file that is compiled for one kind of vector unit: it defines SLUICE_LANES, the
// floats of a register, and SLUICE_TILE_ROWS and SLUICE_TILE_PANELS, the accumulators that its registers hold, and
// includes this once.
//
// Nothing here has external linkage, and the only inline functions of other headers that are called are always inlined
// (activated<What>): of any other the linker could take this file's instance for the whole program, on a processor
// without the unit.
#pragma once

#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/add_product.hpp"
#include "kernels/elementwise/activation_loops.hpp"
#include "kernels/rounded_layers/rounded_layers.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t lanes = SLUICE_LANES;
constexpr int vectors_of_panel = static_cast<int>(rounded_panel / lanes);

using floats __attribute__((vector_size(4 * SLUICE_LANES))) = float;
using words __attribute__((vector_size(4 * SLUICE_LANES))) = std::uint32_t;
using integers __attribute__((vector_size(4 * SLUICE_LANES))) = std::int32_t;
// Wherever they are in memory.
using loose_floats __attribute__((vector_size(4 * SLUICE_LANES), aligned(4), may_alias)) = float;
using loose_words __attribute__((vector_size(4 * SLUICE_LANES), aligned(4), may_alias)) = std::uint32_t;
using loose_integers __attribute__((vector_size(4 * SLUICE_LANES), aligned(4), may_alias)) = std::int32_t;

// --- activations -------------------------------------------------------------------------------------------------

void activate_part(const rounded_part& of) {
    const std::size_t columns = of.panels * rounded_panel;
    if (of.after != activation::relu) return activate_rows(of.out, of.out_stride, of.count, columns, of.after);
    for (std::size_t r = 0; r < of.count; ++r) {
        float* const row = of.out + r * of.out_stride;
        for (std::size_t c = 0; c < columns; ++c) row[c] = activated<activation::relu>(row[c]);
    }
}

// --- tiles -------------------------------------------------------------------------------------------------------

// All rows of the part times `Wide` panels: at most `Rows` rows at a time.
template <template <int, int> class Tile, int Rows, int Wide>
void multiply_panels(const rounded_part& of, std::size_t panel) {
    std::size_t r = 0;
    for (; r + Rows <= of.count; r += Rows) Tile<Rows, Wide>::run(of, r, panel);
    if constexpr (Rows > 8)
        for (; r + 8 <= of.count; r += 8) Tile<8, Wide>::run(of, r, panel);
    if constexpr (Rows > 4)
        for (; r + 4 <= of.count; r += 4) Tile<4, Wide>::run(of, r, panel);
    if constexpr (Rows > 2)
        for (; r + 2 <= of.count; r += 2) Tile<2, Wide>::run(of, r, panel);
    if constexpr (Rows > 1)
        for (; r < of.count; ++r) Tile<1, Wide>::run(of, r, panel);
}

// In tiles of rows by panels. Panels outside, so that those of a tile stay in the cache for all rows. Of few rows more
// panels at once: a sum must not wait for itself. Tile<Rows, Panels>::run(part, row, panel).
template <template <int, int> class Tile, int Rows, int Panels>
void multiply_in_tiles(const rounded_part& of) {
    constexpr std::size_t across = Panels;
    std::size_t p = 0;
    if (of.count == 1)
        for (; p + 4 * across <= of.panels; p += 4 * across) multiply_panels<Tile, 1, 4 * Panels>(of, p);
    if (of.count <= 3)
        for (; p + 2 * across <= of.panels; p += 2 * across) multiply_panels<Tile, 2, 2 * Panels>(of, p);
    for (; p + across <= of.panels; p += across) multiply_panels<Tile, Rows, Panels>(of, p);
    for (; p < of.panels; ++p) multiply_panels<Tile, Rows, 1>(of, p);
}

// --- floats that are rounded to 16 bits ---------------------------------------------------------------------------

// (Vectors are no results: the calling convention for them depends on the unit.)
[[gnu::always_inline]] inline void widen_halves(const std::byte* from, floats& to) {
#if defined(__AVX512F__)
    to = reinterpret_cast<floats>(
        _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(__F16C__)
    to = reinterpret_cast<floats>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
    std::uint16_t bits[lanes];
    memcpy(bits, from, sizeof(bits));
    words wide{};
    for (std::size_t i = 0; i < lanes; ++i) wide[i] = bits[i];
    const words sign = (wide & 0x8000u) << 16, rest = (wide & 0x7fffu) << 13;
    const floats moved = reinterpret_cast<floats>(rest) * 0x1p112f;  // right for subnormals as well
    const words not_finite = reinterpret_cast<words>(rest >= 0x0f80'0000u) & 0x7f80'0000u;
    to = reinterpret_cast<floats>(reinterpret_cast<words>(moved) | not_finite | sign);
#endif
}

// The weights of one group for as many columns as a register has, widened.
template <rounded_type Type>
struct wide_group;
template <>
struct wide_group<rounded_type::f16> {
    floats of[1];
    [[gnu::always_inline]] explicit wide_group(const std::byte* from) { widen_halves(from, of[0]); }
};
template <>
struct wide_group<rounded_type::bf16> {
    floats of[2];
    [[gnu::always_inline]] explicit wide_group(const std::byte* from) {
        const words pairs = *reinterpret_cast<const loose_words*>(from);
        of[0] = reinterpret_cast<floats>(pairs << 16);
        of[1] = reinterpret_cast<floats>(pairs & 0xffff'0000u);
    }
};

// The v-th register of a tile's columns: its element in a row, and its weights from those of the first.
[[gnu::always_inline]] inline std::size_t column_of(std::size_t panel, int v) {
    return panel * rounded_panel + static_cast<std::size_t>(v) * lanes;
}
[[gnu::always_inline]] inline std::size_t weights_of(std::size_t groups, std::size_t k, int v,
                                                     std::size_t column_bytes) {
    const auto panel = static_cast<std::size_t>(v / vectors_of_panel),
               part = static_cast<std::size_t>(v % vectors_of_panel);
    return ((panel * groups + k) * rounded_panel + part * lanes) * column_bytes;
}

template <rounded_type Type>
struct float_tiles {
    template <int Rows, int Panels>
    struct tile {
        static void run(const rounded_part& of, std::size_t row, std::size_t panel) {
            constexpr int group = static_cast<int>(group_of(Type)), across = Panels * vectors_of_panel;
            constexpr std::size_t column_bytes = 2 * group_of(Type);
            const std::byte* const weights = of.weights + panel * of.groups * rounded_panel * column_bytes;
            floats sum[Rows][across];
            for (int v = 0; v < across; ++v) {
                const floats start = *reinterpret_cast<const loose_floats*>(of.biases + column_of(panel, v));
                for (int r = 0; r < Rows; ++r) sum[r][v] = start;
            }
            const std::byte* const x = of.rows + row * of.row_bytes;
            for (std::size_t k = 0; k < of.groups; ++k) {
                for (int v = 0; v < across; ++v) {
                    const wide_group<Type> w(weights + weights_of(of.groups, k, v, column_bytes));
                    for (int g = 0; g < group; ++g) {
                        for (int r = 0; r < Rows; ++r) {
                            float each;
                            memcpy(&each,
                                   x + static_cast<std::size_t>(r) * of.row_bytes +
                                       (k * group + static_cast<std::size_t>(g)) * 4,
                                   4);
                            add_product(sum[r][v], each, w.of[g]);
                        }
                    }
                }
            }
            for (int r = 0; r < Rows; ++r) {
                float* const to = of.out + (row + static_cast<std::size_t>(r)) * of.out_stride;
                for (int v = 0; v < across; ++v) *reinterpret_cast<loose_floats*>(to + column_of(panel, v)) = sum[r][v];
            }
        }
    };
};

// To the nearest number that the type has, as a float. (As sluice::half and sluice::bfloat16 round.)
template <rounded_type Type>
[[gnu::always_inline]] inline float rounded_float(float x) {
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    const std::uint32_t rest = bits & 0x7fff'ffffu, sign = bits & 0x8000'0000u;
    std::uint32_t made;
    if constexpr (Type == rounded_type::bf16) {
        made = rest > 0x7f80'0000u ? rest | 0x40'0000u : (rest + 0x7fffu + ((rest >> 16) & 1u)) & 0xffff'0000u;
    } else {
        // The last place of a subnormal half is 2^-24: adding 0.5 lets the float's own rounding do the work.
        float magnitude;
        memcpy(&magnitude, &rest, sizeof(magnitude));
        const float small = (magnitude + 0.5f) - 0.5f;
        std::uint32_t small_bits;
        memcpy(&small_bits, &small, sizeof(small_bits));
        const std::uint32_t normal = (rest + 0x0fffu + ((rest >> 13) & 1u)) & 0xffff'e000u;
        made = rest < 0x3880'0000u ? small_bits : rest >= 0x477f'f000u ? 0x7f80'0000u : normal;
        if (rest > 0x7f80'0000u) made = rest;
    }
    made |= sign;
    float result;
    memcpy(&result, &made, sizeof(result));
    return result;
}

template <rounded_type Type>
void round_float_rows(const float* x, std::size_t x_stride, std::size_t count, std::size_t in, std::size_t padded,
                      std::byte* rows, row_quantity*) {
    for (std::size_t r = 0; r < count; ++r) {
        float* const to = reinterpret_cast<float*>(rows) + r * padded;
        for (std::size_t k = 0; k < in; ++k) to[k] = rounded_float<Type>(x[r * x_stride + k]);
        for (std::size_t k = in; k < padded; ++k) to[k] = 0;
    }
}

template <rounded_type Type>
void multiply_floats(const rounded_part& part) {
    multiply_in_tiles<float_tiles<Type>::template tile, SLUICE_TILE_ROWS, SLUICE_TILE_PANELS>(part);
    activate_part(part);
}

// --- integers of 8 bits --------------------------------------------------------------------------------------------

// The nearest integer, halves to even, of numbers up to 2^22.
[[gnu::always_inline]] inline float nearest_integer(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

[[gnu::always_inline]] inline void add_number(number_range& to, float x) {
    to.low = x < to.low ? x : to.low;
    to.high = x > to.high ? x : to.high;
    to.is_finite = to.is_finite && x - x == 0;
}
[[maybe_unused]] void widen_range(number_range& range, const float* x, std::size_t count) {
    floats low = floats{} + range.low, high = floats{} + range.high;
    words largest_bits{};
    std::size_t k = 0;
    for (; k + lanes <= count; k += lanes) {
        const floats some = *reinterpret_cast<const loose_floats*>(x + k);
        low = some < low ? some : low;
        high = some > high ? some : high;
        const words magnitude = reinterpret_cast<words>(some) & 0x7fff'ffffu;
        largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
    }
    // In halves; low and high are numbers.
    float lows[lanes], highs[lanes];
    memcpy(lows, &low, sizeof(lows));
    memcpy(highs, &high, sizeof(highs));
    std::uint32_t is_odd = 0;
    for (std::size_t i = 0; i < lanes; ++i) is_odd |= largest_bits[i] >= 0x7f80'0000u;
    for (std::size_t half = lanes / 2; half != 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) {
            lows[i] = lows[i + half] < lows[i] ? lows[i + half] : lows[i];
            highs[i] = highs[i + half] > highs[i] ? highs[i + half] : highs[i];
        }
    }
    range = {lows[0], highs[0], range.is_finite && is_odd == 0};
    for (; k < count; ++k) add_number(range, x[k]);
}

// The numbers as integers of a finite scale.
[[maybe_unused]] void quantize_finite(const float* from, std::size_t count, float scale, float zero, std::uint8_t* to) {
    std::size_t k = 0;
    for (; k + lanes <= count; k += lanes) {
        using bytes __attribute__((vector_size(SLUICE_LANES))) = std::uint8_t;
        floats q = *reinterpret_cast<const loose_floats*>(from + k) / scale;
        q = (q + 0x1.8p23f) - 0x1.8p23f + zero;
        q = q < 0 ? floats{} : q;
        q = q > 255 ? floats{} + 255 : q;
        const bytes whole = __builtin_convertvector(__builtin_convertvector(q, integers), bytes);
        memcpy(to + k, &whole, sizeof(whole));
    }
    for (; k < count; ++k) {
        float q = nearest_integer(from[k] / scale) + zero;
        q = q < 0 ? 0 : q;
        q = q > 255 ? 255 : q;
        to[k] = static_cast<std::uint8_t>(static_cast<std::int32_t>(q));
    }
}

[[maybe_unused]] void quantize_numbers(const float* x, std::size_t count, row_quantity by, std::byte* to) {
    if (by.scale != by.scale) {
        memset(to, 0, count);
    } else {
        quantize_finite(x, count, by.scale, static_cast<float>(by.zero), reinterpret_cast<std::uint8_t*>(to));
    }
}

[[maybe_unused]] void round_integer_rows(const float* x, std::size_t x_stride, std::size_t count, std::size_t in,
                                         std::size_t padded, std::byte* rows, row_quantity* quantities) {
    for (std::size_t r = 0; r < count; ++r) {
        const float* const from = x + r * x_stride;
        auto* const to = reinterpret_cast<std::uint8_t*>(rows) + r * padded;
        number_range range;
        widen_range(range, from, in);
        const float scale = range.high / 255 - range.low / 255;  // high - low could be infinite
        if (!range.is_finite || !(scale > 0)) {
            memset(to, 0, padded);
            quantities[r] = {range.is_finite ? 1.0f : __builtin_nanf(""), 0};
            continue;
        }
        const float zero = nearest_integer(-range.low / scale);
        quantize_finite(from, in, scale, zero, to);
        memset(to + in, 0, padded - in);
        quantities[r] = {scale, static_cast<std::int32_t>(zero)};
    }
}

// From the sums, which are where the outputs are to be.
[[maybe_unused]] void finish_integers(const rounded_part& of) {
    for (std::size_t r = 0; r < of.count; ++r) {
        float* const row = of.out + r * of.out_stride;
        const row_quantity quantity = of.quantities[r];
        const auto zero = static_cast<std::uint32_t>(quantity.zero);
        for (std::size_t c = 0; c < of.panels * rounded_panel; c += lanes) {
            const words sums = *reinterpret_cast<const loose_words*>(row + c);
            const words of_columns = *reinterpret_cast<const loose_words*>(of.column_sums + c);
            const integers whole = reinterpret_cast<integers>(sums - zero * of_columns);
            const floats real = __builtin_convertvector(whole, floats);
            const floats scale = quantity.scale * *reinterpret_cast<const loose_floats*>(of.steps + c);
            floats sum = *reinterpret_cast<const loose_floats*>(of.biases + c);
            add_product(sum, real, scale);
            *reinterpret_cast<loose_floats*>(row + c) = sum;
        }
    }
}

template <int Rows, int Panels>
struct integer_tile {
    static void run(const rounded_part& of, std::size_t row, std::size_t panel) {
        constexpr int across = Panels * vectors_of_panel;
        const std::byte* const weights = of.weights + panel * of.groups * rounded_panel * 4;
        integers sum[Rows][across];
        for (int v = 0; v < across; ++v)
            for (int r = 0; r < Rows; ++r) sum[r][v] = integers{};
        const std::byte* const x = of.rows + row * of.row_bytes;
        for (std::size_t k = 0; k < of.groups; ++k) {
            for (int v = 0; v < across; ++v) {
                const integers four =
                    *reinterpret_cast<const loose_integers*>(weights + weights_of(of.groups, k, v, 4));
                for (int r = 0; r < Rows; ++r) {
                    std::uint32_t inputs;
                    memcpy(&inputs, x + static_cast<std::size_t>(r) * of.row_bytes + 4 * k, sizeof(inputs));
                    add_four_products(four, inputs, sum[r][v]);
                }
            }
        }
        for (int r = 0; r < Rows; ++r) {
            float* const to = of.out + (row + static_cast<std::size_t>(r)) * of.out_stride;
            for (int v = 0; v < across; ++v) *reinterpret_cast<loose_integers*>(to + column_of(panel, v)) = sum[r][v];
        }
    }
};

[[maybe_unused]] void multiply_integers(const rounded_part& part) {
    multiply_in_tiles<integer_tile, SLUICE_TILE_ROWS, SLUICE_TILE_PANELS>(part);
    finish_integers(part);
    activate_part(part);
}

}  // namespace
}  // namespace sluice::kernels
