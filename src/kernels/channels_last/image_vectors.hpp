// SPDX-License-Identifier: Apache-2.0
// The loops of image_loops.hpp, for a file that is compiled for one kind of vector unit. It defines
// SLUICE_TILE_PIXELS_1, _2 and _3, how many pixels a tile has whose panel is that many vectors wide, and
// SLUICE_CHANNEL_PIXELS, and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>
#include <utility>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "kernels/add_product.hpp"
#include "kernels/channels_last/image_curves.hpp"
#include "kernels/channels_last/image_loops.hpp"

namespace sluice::kernels {
namespace {

using lane __attribute__((vector_size(64))) = float;
using loose_lane __attribute__((vector_size(64), aligned(4))) = float;  // wherever it is

// Fewer elements than a lane has. Only those are read that exist: others may be written by another thread.
void load_some(const float* from, std::size_t count, lane& to) {
#ifdef __AVX512F__
    to = _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#else
    lane made = {};
    for (std::size_t i = 0; i < count; ++i) made[i] = from[i];
    to = made;
#endif
}
void store_some(float* to, std::size_t count, const lane& value) {
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), value);
#else
    for (std::size_t i = 0; i < count; ++i) to[i] = value[i];
#endif
}

[[gnu::always_inline]] inline void load(const float* from, std::size_t count, lane& to) {
    if (count >= image_lane) {
        to = *reinterpret_cast<const loose_lane*>(from);
    } else {
        load_some(from, count, to);
    }
}

// The next channels after those from `channel` on. The last lane overlaps the one before, so that it is whole: it
// writes some elements once more, and the same.
std::size_t next_channels(std::size_t channel, std::size_t channels) {
    const std::size_t next = channel + image_lane;
    return next < channels && next + image_lane > channels && channels >= image_lane ? channels - image_lane : next;
}

// Adds and bounds, then writes `count` elements. NaN stays NaN.
[[gnu::always_inline]] inline void finish(const lane& of, float* out, std::size_t count, const float* addend,
                                          const element_end& end) {
    lane value = of;
    if (addend != nullptr) {
        lane other;
        load(addend, count, other);
        value += other;
    }
    if (end.has_bounds) {
        const lane least = lane{} + end.least, most = lane{} + end.most;
        value = value < least ? least : value;
        value = value > most ? most : value;
    }
    if (count >= image_lane) {
        *reinterpret_cast<loose_lane*>(out) = value;
    } else {
        store_some(out, count, value);
    }
}

// The greater ones; NaN stays, of either.
[[gnu::always_inline]] inline void keep_greater(lane& made, const lane& each) {
#ifdef __AVX512F__
    // Of a pair with NaN, maxps gives the second.
    made = _mm512_mask_max_ps(each, _mm512_cmp_ps_mask(each, each, _CMP_ORD_Q), each, made);
#else
    made = each > made ? each : made;
    made = each != each ? each : made;  // NOLINT(misc-redundant-expression): NaN, than which nothing is greater
#endif
}

constexpr std::size_t tile_pixels(int lanes) {
    // NOLINTNEXTLINE(bugprone-branch-clone): two of them may be the same number
    return lanes == 1 ? SLUICE_TILE_PIXELS_1 : lanes == 2 ? SLUICE_TILE_PIXELS_2 : SLUICE_TILE_PIXELS_3;
}

// --- convolve ----------------------------------------------------------------------------------------------------

// `Pixels` neighbours by a panel, in registers.
template <int Pixels, int Lanes>
[[gnu::noinline]] void convolve_tile(const convolved_row& in, std::size_t first) {
    const float* row = in.x + first * in.x_step;
    const float* weights = in.weights;
    const std::size_t step = in.x_step, length = in.runs.length;
    float* out = in.out + first * in.out_step;
    const float* addend = in.end.addend == nullptr ? nullptr : in.end.addend + first * in.end.addend_step;
    // What is written and added comes from far away while the sums are computed.
    for (std::size_t p = 0; p < Pixels; ++p) {
        for (std::size_t v = 0; v < Lanes; ++v) {
            __builtin_prefetch(out + p * in.out_step + v * image_lane, 1);
            if (addend != nullptr) __builtin_prefetch(addend + p * in.end.addend_step + v * image_lane);
        }
    }
    lane sum[Pixels][Lanes];
    for (int v = 0; v < Lanes; ++v) {
        const lane start = *reinterpret_cast<const loose_lane*>(in.bias + v * image_lane);
        for (int p = 0; p < Pixels; ++p) sum[p][v] = start;
    }
    for (std::size_t r = 0; r < in.runs.rows; ++r, row += in.runs.row_step) {
        const float* run = row;
        for (std::size_t c = 0; c < in.runs.columns; ++c, run += in.runs.column_step) {
            const float* x = run;
            for (std::size_t k = 0; k < length; ++k, ++x, weights += Lanes * image_lane) {
                lane w[Lanes];
                for (int v = 0; v < Lanes; ++v) w[v] = *reinterpret_cast<const loose_lane*>(weights + v * image_lane);
#pragma GCC unroll 14
                for (int p = 0; p < Pixels; ++p) {
                    const float each = x[p * step];
                    for (int v = 0; v < Lanes; ++v) add_product(sum[p][v], each, w[v]);
                }
            }
        }
    }
    for (int p = 0; p < Pixels; ++p, out += in.out_step) {
        for (int v = 0; v < Lanes; ++v) {
            const std::size_t at = static_cast<std::size_t>(v) * 16;
            if (at >= in.filters) break;
            finish(sum[p][v], out + at, in.filters - at, addend == nullptr ? nullptr : addend + at, in.end);
        }
        if (addend != nullptr) addend += in.end.addend_step;
    }
}

template <int Pixels, int Lanes>
void convolve_pixels(const convolved_row& in, std::size_t first, std::size_t pixels) {
    if (pixels == Pixels) return convolve_tile<Pixels, Lanes>(in, first);
    if constexpr (Pixels > 1) convolve_pixels<Pixels - 1, Lanes>(in, first, pixels);
}

// Tiles of about equal width.
template <int Lanes>
void convolve_row(const convolved_row& in) {
    constexpr int most = tile_pixels(Lanes);
    const std::size_t tiles = (in.pixels + most - 1) / most, least = in.pixels / tiles, wider = in.pixels % tiles;
    std::size_t first = 0;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t pixels = least + (tile < wider ? 1 : 0);
        convolve_pixels<most, Lanes>(in, first, pixels);
        first += pixels;
    }
}

// --- convolve_channels -------------------------------------------------------------------------------------------

// `Pixels` neighbours by the filters of one vector of channels: of all of its channels, or of some. With `Columns`, a
// window has that many, and its next column is the next pixel's first: each is read once for all of these. The order of
// an element's sum is the same.
template <int Pixels, bool AreAll, int Columns>
[[gnu::always_inline]] inline void channel_tile(const convolved_row& in, std::size_t first, std::size_t channel) {
    const std::size_t left = AreAll ? image_lane : in.filters - channel, all = (in.filters + 15) / 16 * 16;
    const std::size_t step = in.x_step, rows = in.runs.rows, columns = in.runs.columns;
    const float* row = in.x + first * step + channel;
    const float* weights = in.weights + channel;
    lane sum[Pixels];
    const lane start = *reinterpret_cast<const loose_lane*>(in.bias + channel);
    for (int p = 0; p < Pixels; ++p) sum[p] = start;
    for (std::size_t r = 0; r < rows; ++r, row += in.runs.row_step) {
        const float* x = row;
        if constexpr (Columns != 0) {
            lane w[Columns];
            for (int c = 0; c < Columns; ++c, weights += all) w[c] = *reinterpret_cast<const loose_lane*>(weights);
#pragma GCC unroll 16
            for (int i = 0; i < Pixels + Columns - 1; ++i, x += step) {
                const lane each = *reinterpret_cast<const loose_lane*>(x);
#pragma GCC unroll 16
                for (int c = 0; c < Columns; ++c)
                    if (i - c >= 0 && i - c < Pixels) add_product(sum[i - c], each, w[c]);
            }
            continue;
        }
        for (std::size_t c = 0; c < columns; ++c, x += in.runs.column_step, weights += all) {
            const lane w = *reinterpret_cast<const loose_lane*>(weights);
#pragma GCC unroll 16
            for (int p = 0; p < Pixels; ++p) {
                lane each;
                load(x + p * step, left, each);
                add_product(sum[p], each, w);
            }
        }
    }
    for (int p = 0; p < Pixels; ++p) {
        const std::size_t pixel = first + static_cast<std::size_t>(p);
        const float* const addend =
            in.end.addend == nullptr ? nullptr : in.end.addend + pixel * in.end.addend_step + channel;
        finish(sum[p], in.out + pixel * in.out_step + channel, left, addend, in.end);
    }
}

template <int Pixels, int Columns>
[[gnu::noinline]] void channel_tiles(const convolved_row& in, std::size_t first) {
    for (std::size_t c = 0; c < in.filters; c = next_channels(c, in.filters))
        channel_tile<Pixels, true, Columns>(in, first, c);
}
template <int Pixels>
[[gnu::noinline]] void channel_tiles(const convolved_row& in, std::size_t first) {
    if (in.filters < image_lane) return channel_tile<Pixels, false, 0>(in, first, 0);
    if (in.x_step != in.runs.column_step) return channel_tiles<Pixels, 0>(in, first);
    switch (in.runs.columns) {
        case 3: return channel_tiles<Pixels, 3>(in, first);
        case 5: return channel_tiles<Pixels, 5>(in, first);
        default: return channel_tiles<Pixels, 0>(in, first);
    }
}
template <int Pixels>
void channel_pixels(const convolved_row& in, std::size_t first, std::size_t pixels) {
    if (pixels == Pixels) return channel_tiles<Pixels>(in, first);
    if constexpr (Pixels > 1) channel_pixels<Pixels - 1>(in, first, pixels);
}

// Tiles of about equal width.
void convolve_channels(const convolved_row& in) {
    constexpr std::size_t most = SLUICE_CHANNEL_PIXELS;
    const std::size_t tiles = (in.pixels + most - 1) / most;
    for (std::size_t tile = 0, first = 0; tile < tiles; ++tile) {
        const std::size_t pixels = (in.pixels - first + tiles - tile - 1) / (tiles - tile);
        channel_pixels<SLUICE_CHANNEL_PIXELS>(in, first, pixels);
        first += pixels;
    }
}

// --- windows -----------------------------------------------------------------------------------------------------

// The elements of one pixel's window along its row that exist, and those that count.
struct window_columns {
    std::size_t first, last, counted;
};
window_columns columns_of(const pooled_row& in, std::size_t pixel) {
    const std::size_t start = pixel * in.stride;
    if (start >= in.before && start + (in.columns - 1) * in.dilation < in.before + in.width)
        return {0, in.columns, in.columns};
    window_columns made{0, 0, 0};
    bool is_first = true;
    for (std::size_t k = 0; k < in.columns; ++k) {
        const std::size_t at = start + k * in.dilation;  // `before` too far to the right
        if (at < in.before + in.width + in.after) ++made.counted;
        if (at < in.before || at >= in.before + in.width) continue;
        if (is_first) made.first = k;
        is_first = false;
        made.last = k + 1;
    }
    return made;
}

// Some channels of one pixel: whole vectors, or one that has fewer.
template <bool IsMaximum, std::size_t Lanes>
[[gnu::always_inline]] inline void pool_channels(const pooled_row& in, const float* begin,
                                                 const window_columns& columns, bool exists, std::size_t counted,
                                                 std::size_t pixel, std::size_t channel) {
    const std::size_t left = in.channels - channel;
    lane made[Lanes];
    for (std::size_t v = 0; v < Lanes; ++v) made[v] = lane{} + (IsMaximum ? -__builtin_inff() : 0.0f);
    for (std::size_t r = 0; exists && r < in.rows; ++r) {
        const float* x = begin + r * in.row_step + channel;
        lane of_row[Lanes] = {};
        for (std::size_t k = columns.first; k < columns.last; ++k, x += in.dilation * in.x_pixel) {
            for (std::size_t v = 0; v < Lanes; ++v) {
                lane each;
                load(x + v * image_lane, Lanes == 1 ? left : image_lane, each);
                if constexpr (IsMaximum) {
                    keep_greater(made[v], each);
                } else {
                    of_row[v] += each;
                }
            }
        }
        if constexpr (!IsMaximum) {
            for (std::size_t v = 0; v < Lanes; ++v) made[v] += of_row[v];
        }
    }
    for (std::size_t v = 0; v < Lanes; ++v) {
        if constexpr (!IsMaximum) {
            if (counted != 0) made[v] /= static_cast<float>(counted);
        }
        finish(made[v], in.out + pixel * in.out_step + channel + v * image_lane, Lanes == 1 ? left : image_lane,
               nullptr, in.end);
    }
}

template <bool IsMaximum>
void pool_row(const pooled_row& in) {
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel) {
        const std::size_t at = in.first + pixel;
        const window_columns columns = columns_of(in, at);
        const std::size_t existing = in.rows * (columns.last - columns.first);
        const std::size_t counted = in.counts_padding ? in.counted_rows * columns.counted : existing;
        const float* const begin =
            existing == 0 ? in.x : in.x + (at * in.stride + columns.first * in.dilation - in.before) * in.x_pixel;
        // Several vectors at once: then the processor does not wait for one comparison after the other.
        constexpr std::size_t together = 4;
        std::size_t channel = 0;
        for (; channel + together * image_lane <= in.channels; channel += together * image_lane)
            pool_channels<IsMaximum, together>(in, begin, columns, existing != 0, counted, pixel, channel);
        for (; channel < in.channels; channel = next_channels(channel, in.channels))
            pool_channels<IsMaximum, 1>(in, begin, columns, existing != 0, counted, pixel, channel);
    }
}

// --- three planes ---

// a0 b0 c0 a1 ...
void join_three(const float* from, std::size_t plane, std::size_t pixels, float* to) {
    std::size_t x = 0;
    for (; x + image_lane <= pixels; x += image_lane, to += 3 * image_lane) {
        lane a, b, c;
        load(from + x, image_lane, a);
        load(from + plane + x, image_lane, b);
        load(from + 2 * plane + x, image_lane, c);
        lane made = __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
        *reinterpret_cast<loose_lane*>(to) =
            __builtin_shufflevector(made, c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15);
        made = __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
        *reinterpret_cast<loose_lane*>(to + image_lane) =
            __builtin_shufflevector(made, c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15);
        made = __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
        *reinterpret_cast<loose_lane*>(to + 2 * image_lane) =
            __builtin_shufflevector(made, c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31);
    }
    for (; x < pixels; ++x, to += 3)
        for (std::size_t i = 0; i < 3; ++i) to[i] = from[i * plane + x];
}

// --- planes and pixels ---

template <std::size_t Step, std::size_t... At>
[[gnu::always_inline]] inline void exchange(lane& a, lane& b, std::index_sequence<At...>) {
    const lane first = __builtin_shufflevector(a, b, ((At & Step) != 0 ? image_lane + At - Step : At)...);
    b = __builtin_shufflevector(a, b, ((At & Step) != 0 ? image_lane + At : At + Step)...);
    a = first;
}
template <std::size_t Step>
[[gnu::always_inline]] inline void exchange_rows(lane (&rows)[image_lane]) {
    for (std::size_t i = 0; i < image_lane; ++i)
        if ((i & Step) == 0) exchange<Step>(rows[i], rows[i + Step], std::make_index_sequence<image_lane>());
}

// Rows become columns: to[j * to_step + i] = from[i * from_step + j].
void transpose(const transposed_rows& of) {
    const std::size_t rows = of.rows, columns = of.columns, from_step = of.from_step, to_step = of.to_step;
    const std::size_t whole_rows = rows / image_lane * image_lane, whole_columns = columns / image_lane * image_lane;
    for (std::size_t j = 0; j < whole_columns; j += image_lane) {
        for (std::size_t i = 0; i < whole_rows; i += image_lane) {
            const float* const from = of.from + i * from_step + j;
            float* const to = of.to + j * to_step + i;
            lane block[image_lane];
            for (std::size_t k = 0; k < image_lane; ++k)
                block[k] = *reinterpret_cast<const loose_lane*>(from + k * from_step);
            exchange_rows<8>(block);
            exchange_rows<4>(block);
            exchange_rows<2>(block);
            exchange_rows<1>(block);
            for (std::size_t k = 0; k < image_lane; ++k) *reinterpret_cast<loose_lane*>(to + k * to_step) = block[k];
        }
        for (std::size_t i = whole_rows; i < rows; ++i)
            for (std::size_t k = j; k < j + image_lane; ++k) of.to[k * to_step + i] = of.from[i * from_step + k];
    }
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = whole_columns; j < columns; ++j) of.to[j * to_step + i] = of.from[i * from_step + j];
}

// --- scale -------------------------------------------------------------------------------------------------------

void scale_row(const scaled_row& in) {
    const std::size_t all = (in.channels + 15) / 16 * 16;
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel) {
        for (std::size_t channel = 0; channel < in.channels; channel = next_channels(channel, in.channels)) {
            const std::size_t left = in.channels - channel;
            const float* const from = in.x + pixel * in.x_step + channel;
            lane value;
            if (in.factors == nullptr) {
                load(from, left, value);
            } else {
                lane x;
                load(from, left, x);
                value = *reinterpret_cast<const loose_lane*>(in.factors + all + channel);
                const lane factor = *reinterpret_cast<const loose_lane*>(in.factors + channel);
                add_product(value, x, factor);
            }
            finish(value, in.out + pixel * in.out_step + channel, left, nullptr, in.end);
        }
    }
}

// --- two values --------------------------------------------------------------------------------------------------

void combine_row(const combined_row& in) {
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel) {
        const float *const from = in.x + pixel * in.x_step, *const by = in.y + pixel * in.y_step;
        for (std::size_t channel = 0; channel < in.channels; channel = next_channels(channel, in.channels)) {
            const std::size_t left = in.channels - channel;
            lane x, y = lane{} + *by;
            load(from + channel, left, x);
            if (!in.y_is_channel) load(by + channel, left, y);
            finish(in.multiplies ? x * y : x + y, in.out + pixel * in.out_step + channel, left, nullptr, in.end);
        }
    }
}

// --- shuffle -----------------------------------------------------------------------------------------------------

// a0 b0 a1 b1 ...: of the first halves, and of the second ones.
#define SLUICE_FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define SLUICE_SECOND_HALVES(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

void interleave_two(const float* from, std::size_t of_group, std::size_t k, float* to) {
    lane a, b;
    load(from + k, image_lane, a);
    load(from + of_group + k, image_lane, b);
    *reinterpret_cast<loose_lane*>(to) = SLUICE_FIRST_HALVES(a, b);
    *reinterpret_cast<loose_lane*>(to + image_lane) = SLUICE_SECOND_HALVES(a, b);
}
void interleave_four(const float* from, std::size_t of_group, std::size_t k, float* to) {
    lane x[4];
    for (std::size_t g = 0; g < 4; ++g) load(from + g * of_group + k, image_lane, x[g]);
    const lane a = SLUICE_FIRST_HALVES(x[0], x[2]), b = SLUICE_FIRST_HALVES(x[1], x[3]);
    const lane c = SLUICE_SECOND_HALVES(x[0], x[2]), d = SLUICE_SECOND_HALVES(x[1], x[3]);
    *reinterpret_cast<loose_lane*>(to) = SLUICE_FIRST_HALVES(a, b);
    *reinterpret_cast<loose_lane*>(to + image_lane) = SLUICE_SECOND_HALVES(a, b);
    *reinterpret_cast<loose_lane*>(to + 2 * image_lane) = SLUICE_FIRST_HALVES(c, d);
    *reinterpret_cast<loose_lane*>(to + 3 * image_lane) = SLUICE_SECOND_HALVES(c, d);
}

void shuffle_row(const shuffled_row& in) {
    const std::size_t groups = in.groups, of_group = in.channels / groups;
    void (*const interleave)(const float*, std::size_t, std::size_t, float*) = groups == 2   ? &interleave_two
                                                                               : groups == 4 ? &interleave_four
                                                                                             : nullptr;
    const float* from = in.x;
    float* to = in.out;
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel, from += in.x_step, to += in.out_step) {
        std::size_t k = 0;
        if (interleave != nullptr && of_group >= image_lane)
            for (; k < of_group; k = next_channels(k, of_group)) interleave(from, of_group, k, to + k * groups);
        for (; k < of_group; ++k)
            for (std::size_t g = 0; g < groups; ++g) to[k * groups + g] = from[g * of_group + k];
    }
}

#undef SLUICE_FIRST_HALVES
#undef SLUICE_SECOND_HALVES

constexpr image_loops loops_of_this_unit = {{&convolve_row<1>, &convolve_row<2>, &convolve_row<3>},
                                            &convolve_channels,
                                            &pool_row<true>,
                                            &pool_row<false>,
                                            &scale_row,
                                            &combine_row,
                                            &curve_row,
                                            &shuffle_row,
                                            &join_three,
                                            &transpose};

}  // namespace
}  // namespace sluice::kernels
