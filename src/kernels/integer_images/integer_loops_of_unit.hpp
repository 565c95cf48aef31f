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

// The nearest integer plus the zero point, halves to even, within a byte; NaN becomes 0. Far from the bytes any number
// is as far. The order of operations is that of quantized_product.cpp.
[[gnu::always_inline]] inline void round_to_bytes(const floats& quotient, float zero, integers& to) {
    constexpr float far = 0x1p20f, shift = 0x1.8p23f;
    floats q = quotient;
    q = q > -far ? q : floats{} - far;
    q = q < far ? q : floats{} + far;
    q = (q + shift) - shift + zero;
    q = q > 0 ? q : floats{};
    q = q < 255 ? q : floats{} + 255;
    to = __builtin_convertvector(q, integers);
}

[[gnu::always_inline]] inline void store_bytes(const integers& from, std::size_t count, std::uint8_t* to) {
    const lane_bytes made = __builtin_convertvector(from, lane_bytes);
    if (count >= lanes) {
        memcpy(to, &made, lanes);
    } else {
        memcpy(to, &made, count);
    }
}

// From the sums of some filters of one pixel.
[[gnu::always_inline]] inline void finish(const integers& sums, const float* factors, const float* biases,
                                          const byte_end& end, std::size_t count, std::uint8_t* to) {
    const floats whole = __builtin_convertvector(sums, floats);
    floats real = *reinterpret_cast<const loose_floats*>(biases);
    const floats factor = *reinterpret_cast<const loose_floats*>(factors);
    add_product(real, whole, factor);
    if (end.has_relu) real = real > 0 ? real : floats{};
    integers made;
    round_to_bytes(real / end.quantity.scale, static_cast<float>(end.quantity.zero), made);
    store_bytes(made, count, to);
}

// --- products ------------------------------------------------------------------------------------------------------

// A byte of each lane times a weight.
[[gnu::always_inline]] inline void add_product_of_bytes(const integers& x, const integers& weights, integers& to) {
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
                for (int v = 0; v < across; ++v) {
                    const integers four = *reinterpret_cast<const loose_integers*>(
                        weights + static_cast<std::size_t>(v / vectors_of_panel) * panel_bytes +
                        static_cast<std::size_t>(v % vectors_of_panel) * 4 * lanes);
                    for (int p = 0; p < Pixels; ++p) {
                        std::uint32_t inputs;
                        memcpy(&inputs, x[p] + from + 4 * k, sizeof(inputs));
                        add_four_products(four, inputs, sums[p][v]);
                    }
                }
            }
        }
    }
    for (int v = 0; v < across; ++v) {
        const std::size_t at = first + static_cast<std::size_t>(v) * lanes;
        if (at >= of.filters) break;
        for (int p = 0; p < Pixels; ++p)
            finish(sums[p][v], of.factors + at, of.biases + at, of.end, of.filters - at,
                   of.out[pixel + static_cast<std::size_t>(p)] + at);
    }
}

template <int Pixels>
void multiply_pixels(const convolved_tile& of, std::size_t pixel) {
    const std::size_t panels = (of.filters + panel_filters - 1) / panel_filters;
    std::size_t panel = 0;
    for (; panel + SLUICE_TILE_PANELS <= panels; panel += SLUICE_TILE_PANELS)
        multiply<Pixels, SLUICE_TILE_PANELS>(of, pixel, panel);
    for (; panel < panels; ++panel) multiply<Pixels, 1>(of, pixel, panel);
}

void convolve_tile(const convolved_tile& of) {
    std::size_t pixel = 0;
    for (; pixel + SLUICE_TILE_PIXELS <= of.pixels; pixel += SLUICE_TILE_PIXELS)
        multiply_pixels<SLUICE_TILE_PIXELS>(of, pixel);
    if constexpr (SLUICE_TILE_PIXELS > 8)
        for (; pixel + 8 <= of.pixels; pixel += 8) multiply_pixels<8>(of, pixel);
    if constexpr (SLUICE_TILE_PIXELS > 4)
        for (; pixel + 4 <= of.pixels; pixel += 4) multiply_pixels<4>(of, pixel);
    for (; pixel < of.pixels; ++pixel) multiply_pixels<1>(of, pixel);
}

void convolve_row_of_channels(const convolved_channels& of) {
    const std::size_t columns = (of.channels + panel_filters - 1) / panel_filters * panel_filters;
    for (std::size_t pixel = 0; pixel < of.pixels; ++pixel) {
        const std::uint8_t* const x = of.x + pixel * of.x_step;
        std::uint8_t* const out = of.out + pixel * of.out_step;
        for (std::size_t c = 0; c < of.channels; c += lanes) {
            integers sums = *reinterpret_cast<const loose_integers*>(of.starts + c);
            for (std::size_t row = 0; row < of.rows; ++row) {
                for (std::size_t column = 0; column < of.columns; ++column) {
                    lane_bytes some;
                    memcpy(&some, x + row * of.row_step + column * of.column_step + c, sizeof(some));
                    const integers wide = __builtin_convertvector(some, integers);
                    const integers weights = *reinterpret_cast<const loose_integers*>(
                        of.weights + (row * of.columns + column) * columns + c);
                    add_product_of_bytes(wide, weights, sums);
                }
            }
            finish(sums, of.factors + c, of.biases + c, of.end, of.channels - c, out + c);
        }
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

void quantize_numbers(const float* x, std::size_t count, const byte_quantity& as, std::uint8_t* to) {
    const auto zero = static_cast<float>(as.zero);
    integers made;
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const floats some = *reinterpret_cast<const loose_floats*>(x + i);
        round_to_bytes(some / as.scale, zero, made);
        store_bytes(made, lanes, to + i);
    }
    if (i == count) return;
    floats some = {};
    memcpy(&some, x + i, (count - i) * sizeof(float));
    round_to_bytes(some / as.scale, zero, made);
    store_bytes(made, count - i, to + i);
}

void dequantize_bytes(const std::uint8_t* x, std::size_t count, const byte_quantity& as, float* to) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = static_cast<float>(static_cast<std::int32_t>(x[i]) - as.zero) * as.scale;
}

}  // namespace
}  // namespace sluice::kernels
