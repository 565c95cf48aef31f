// SPDX-License-Identifier: Apache-2.0
// The loops of pooling_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// A row of windows is computed in two steps. The lines of the image that its windows read become one line, which has
// the padding too; then each window takes its columns of that line. Several rows take each step together: a number
// that was just written is slow to read in another place of a vector. Where windows are `stride` columns apart, the
// lines are first split into as many, so that neighbouring windows read neighbours. A maximum of many columns is made
// from maxima of 2, 4, 8 of them.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "kernels/elementwise/vector_math_loops.hpp"
#include "nn/operators/pooling_loops.hpp"

namespace sluice::nn::operators {
namespace {

// --- lanes -------------------------------------------------------------------------------------------------------

// Some numbers at the end of a line, which fill no lane: others are `otherwise`, and are not written.
#if defined(__AVX2__) && !defined(__AVX512F__)
[[gnu::always_inline]] inline const int* mask_of(std::size_t count) {
    static const int all[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return all + (8 - count);
}
#endif
[[gnu::always_inline]] inline void load_some(const float* x, std::size_t count, float otherwise,
                                             kernels::number_lane& to) {
#if defined(__AVX512F__)
    const auto which = static_cast<__mmask16>((1u << count) - 1);
    to = reinterpret_cast<kernels::number_lane>(_mm512_mask_loadu_ps(_mm512_set1_ps(otherwise), which, x));
#elif defined(__AVX2__)
    const __m256i which = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask_of(count)));
    to = reinterpret_cast<kernels::number_lane>(
        _mm256_blendv_ps(_mm256_set1_ps(otherwise), _mm256_maskload_ps(x, which), reinterpret_cast<__m256>(which)));
#else
    kernels::rest_of_row(x, count, otherwise, to);
#endif
}
[[gnu::always_inline]] inline void store_some(const kernels::number_lane& from, std::size_t count, float* y) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1u << count) - 1), reinterpret_cast<__m512>(from));
#elif defined(__AVX2__)
    _mm256_maskstore_ps(y, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask_of(count))),
                        reinterpret_cast<__m256>(from));
#else
    for (std::size_t k = 0; k < count; ++k) y[k] = from[k];
#endif
}
// The same for lanes of f64; the others are 0.
[[gnu::always_inline]] inline void load_some(const float* x, std::size_t count, kernels::wide_lane& to) {
#if defined(__AVX512F__)
    const auto made =
        reinterpret_cast<kernels::half_lane>(_mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << count) - 1), x));
#elif defined(__AVX2__)
    const auto made = reinterpret_cast<kernels::half_lane>(
        _mm_maskload_ps(x, _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask_of(count)))));
#else
    kernels::half_lane made = {};
    for (std::size_t k = 0; k < count; ++k) made[k] = x[k];
#endif
    kernels::widen(made, to);
}
[[gnu::always_inline]] inline void store_some(const kernels::wide_lane& from, std::size_t count, float* y) {
    kernels::half_lane made;
    kernels::narrow(from, made);
#if defined(__AVX512F__)
    _mm256_mask_storeu_ps(y, static_cast<__mmask8>((1u << count) - 1), reinterpret_cast<__m256>(made));
#elif defined(__AVX2__)
    _mm_maskstore_ps(y, _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask_of(count))),
                     reinterpret_cast<__m128>(made));
#else
    for (std::size_t k = 0; k < count; ++k) y[k] = made[k];
#endif
}

struct largest_of {
    using number = float;
    using lane = kernels::number_lane;
    using loose_lane = kernels::loose_number_lane;
    static constexpr std::size_t numbers = kernels::lane_numbers;
    static constexpr number none = -__builtin_inff();
    static constexpr bool may_overlap = true;  // an element may be taken twice

    [[gnu::always_inline]] static void load(const float* x, lane& to) {
        to = *reinterpret_cast<const kernels::loose_number_lane*>(x);
    }
    [[gnu::always_inline]] static void load_few(const float* x, std::size_t count, lane& to) {
        load_some(x, count, none, to);
    }
    // NaN where one is NaN.
    [[gnu::always_inline]] static void take(lane& made, const lane& x) {
#if defined(__AVX512F__)
        const __m512 each = reinterpret_cast<__m512>(x);
        // The second one where one is NaN. (With no mask, g++ 12 warns.)
        const __m512 most = _mm512_maskz_max_ps(0xffff, each, reinterpret_cast<__m512>(made));
        made = reinterpret_cast<lane>(_mm512_mask_mov_ps(most, _mm512_cmp_ps_mask(each, each, _CMP_UNORD_Q), each));
#else
        made = ((x > made) | (x != x)) ? x : made;
#endif
    }
};

struct sum_of {
    using number = double;
    using lane = kernels::wide_lane;
    using loose_lane __attribute__((vector_size(kernels::lane_bytes), aligned(8))) = double;
    static constexpr std::size_t numbers = kernels::wide_numbers;
    static constexpr number none = 0;
    static constexpr bool may_overlap = false;

    [[gnu::always_inline]] static void load(const float* x, lane& to) {
        const kernels::half_lane each = *reinterpret_cast<const kernels::loose_half_lane*>(x);
        kernels::widen(each, to);
    }
    [[gnu::always_inline]] static void load_few(const float* x, std::size_t count, lane& to) {
        load_some(x, count, to);
    }
    [[gnu::always_inline]] static void take(lane& made, const lane& x) { made += x; }
};

// --- windows -----------------------------------------------------------------------------------------------------

// Along a dimension, the elements of window o that are in the image, or in the image and the padding that is counted.
struct window_part {
    std::size_t first, count;
};
[[gnu::always_inline]] inline window_part part_of(const pooled_windows& of, std::size_t o, std::size_t d,
                                                  bool with_padding) {
    const std::size_t start = o * of.stride[d], step = of.dilation[d], skipped = with_padding ? 0 : of.before[d];
    const std::size_t end = of.before[d] + of.input[d] + (with_padding ? of.after[d] : 0);
    const auto in_steps = [step](std::size_t length) { return step == 1 ? length : (length + step - 1) / step; };
    const std::size_t first = start >= skipped ? 0 : in_steps(skipped - start);
    std::size_t last = start >= end ? 0 : in_steps(end - start);
    if (last > of.window[d]) last = of.window[d];
    return {first, last > first ? last - first : 0};
}

// The line that a row of windows reads.
struct read_line {
    std::size_t columns = 0;        // all that windows read, with padding
    std::size_t left = 0, own = 0;  // the padding before the image, and columns of the image
    std::size_t from = 0;           // the first of these in the image
};
inline read_line line_of(const pooled_windows& of) {
    const std::size_t start = of.begin * of.stride[2];
    read_line made;
    made.columns = (of.end - of.begin - 1) * of.stride[2] + (of.window[2] - 1) * of.dilation[2] + 1;
    made.left = start < of.before[2] ? of.before[2] - start : 0;
    if (made.left > made.columns) made.left = made.columns;
    made.from = start > of.before[2] ? start - of.before[2] : 0;
    const std::size_t there = made.from < of.input[2] ? of.input[2] - made.from : 0;
    made.own = made.columns - made.left < there ? made.columns - made.left : there;
    return made;
}

// Goes through rows: the places of their windows in the first dimensions.
struct row_place {
    std::size_t o1, o0, plane;

    explicit row_place(const pooled_windows& of)
        : o1(of.first_row % of.output[1]),
          o0(of.first_row / of.output[1] % of.output[0]),
          plane(of.first_row / of.output[1] / of.output[0]) {}
    [[gnu::always_inline]] void advance(const pooled_windows& of) {
        if (++o1 != of.output[1]) return;
        o1 = 0;
        if (++o0 != of.output[0]) return;
        o0 = 0;
        ++plane;
    }
};

constexpr std::size_t most_phases = 4;     // strides that are split
constexpr std::size_t joined_columns = 8;  // of a window, or more: joined 2, 4, 8 at a time

// The lines of some rows, one after the other.
template <typename How>
struct line_memory {
    using number = typename How::number;
    static constexpr std::size_t slack = 2 * How::numbers;  // lanes that begin in a line end beyond it
    alignas(kernels::lane_bytes) number lines[pooled_windows::most_columns + most_phases + slack];
    alignas(kernels::lane_bytes) number phases[pooled_windows::most_columns + most_phases * 2 * slack];
};

// The lines of a row's windows, as one. Numbers beyond its columns become none, as far as a lane reaches.
template <typename How>
[[gnu::always_inline]] inline void join_lines(const pooled_windows& of, const row_place& row, const read_line& line,
                                              typename How::number* to) {
    using lane = typename How::lane;
    const window_part p0 = part_of(of, row.o0, 0, false), p1 = part_of(of, row.o1, 1, false);
    const std::size_t width = of.input[2], plane = of.input[1] * width, lines = p0.count != 0 ? p1.count : 0;
    const std::size_t step0 = of.dilation[0] * plane, step1 = of.dilation[1] * width;
    const float* from = of.x + row.plane * of.input[0] * plane + line.from;
    if (lines != 0) {
        from += (row.o0 * of.stride[0] + p0.first * of.dilation[0] - of.before[0]) * plane;
        from += (row.o1 * of.stride[1] + p1.first * of.dilation[1] - of.before[1]) * width;
    }
    const auto over_lines = [&](std::size_t c, const auto& load) __attribute__((always_inline)) {
        lane made = lane{} + How::none, each;
        for (std::size_t w0 = 0; w0 < p0.count; ++w0) {
            const float* at = from + w0 * step0 + c;
            for (std::size_t w1 = 0; w1 < lines; ++w1, at += step1) {
                load(at, each);
                How::take(made, each);
            }
        }
        *reinterpret_cast<typename How::loose_lane*>(to + c) = made;
    };
    std::size_t c = 0;
    for (; c + How::numbers <= line.own; c += How::numbers)
        over_lines(c, [](const float* x, lane& each) __attribute__((always_inline)) { How::load(x, each); });
    const std::size_t some = line.own - c;
    if (some == 0) return;
    over_lines(c, [some](const float* x, lane& each) __attribute__((always_inline)) { How::load_few(x, some, each); });
}

// line[i] becomes that of line[i] and line[i + shift], for the columns that have both.
template <typename How>
[[gnu::always_inline]] inline void join_shifted(typename How::number* line, std::size_t columns, std::size_t shift) {
    using loose = typename How::loose_lane;
    for (std::size_t i = 0; i + shift < columns; i += How::numbers) {
        typename How::lane made = *reinterpret_cast<const loose*>(line + i);
        const typename How::lane other = *reinterpret_cast<const loose*>(line + i + shift);
        How::take(made, other);
        *reinterpret_cast<loose*>(line + i) = made;
    }
}

// phases[p * size + j] = line[j * Stride + p] for j < count
template <std::size_t Stride, typename Number>
[[gnu::always_inline]] inline void split_line(const Number* __restrict line, std::size_t count, std::size_t size,
                                              Number* __restrict phases) {
    for (std::size_t j = 0; j < count; ++j)
        for (std::size_t p = 0; p < Stride; ++p) phases[p * size + j] = line[j * Stride + p];
}

// What a window takes of its line: `whole` elements that are `step` apart, and the one at `last` if that is another.
struct column_taps {
    std::size_t step, whole, last;
    bool has_last;
};
template <typename How>
[[gnu::always_inline]] inline column_taps join_columns(const pooled_windows& of, typename How::number* lines,
                                                       std::size_t columns) {
    std::size_t have = 1;
    if (How::may_overlap && of.window[2] >= joined_columns)
        for (; 4 * have <= of.window[2]; have *= 2) join_shifted<How>(lines, columns, have * of.dilation[2]);
    const std::size_t whole = of.window[2] / have;
    return {have * of.dilation[2], whole, (of.window[2] - have) * of.dilation[2], of.window[2] % have != 0};
}

// Windows that are many columns apart, one by one.
template <typename How, typename Give>
[[gnu::always_inline]] inline void take_far_columns(const pooled_windows& of, const column_taps& taps, std::size_t rows,
                                                    std::size_t pitch, const line_memory<How>& memory, Give& give) {
    using lane = typename How::lane;
    const std::size_t windows = of.end - of.begin, stride = of.stride[2];
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t o = 0; o < windows; o += How::numbers) {
            const std::size_t some = windows - o < How::numbers ? windows - o : How::numbers;
            const typename How::number* const begin = memory.lines + row * pitch + o * stride;
            lane made = lane{} + How::none;
            for (std::size_t k = 0; k < taps.whole + (taps.has_last ? 1 : 0); ++k) {
                const std::size_t at = k < taps.whole ? k * taps.step : taps.last;
                lane each = lane{} + How::none;
                for (std::size_t i = 0; i < some; ++i) each[i] = begin[i * stride + at];
                How::take(made, each);
            }
            give(row, o, made);
        }
    }
}

// Calls give(row, o, lane) for windows [o, o + lane) of each of these rows. Stride: of the windows, at most
// most_phases.
template <typename How, std::size_t Stride, typename Give>
[[gnu::always_inline]] inline void take_columns(const pooled_windows& of, const column_taps& taps, std::size_t rows,
                                                std::size_t pitch, line_memory<How>& memory, Give& give) {
    using lane = typename How::lane;
    using loose = typename How::loose_lane;
    const std::size_t windows = of.end - of.begin, of_row = pitch / Stride,
                      size =
                          (of_row * rows + How::numbers - 1) / How::numbers * How::numbers;  // so that lanes are whole
    const typename How::number* from = memory.lines;
    if constexpr (Stride != 1) {
        split_line<Stride>(memory.lines, of_row * rows, size, memory.phases);
        from = memory.phases;
    }
    const auto place = [size](std::size_t at) { return at % Stride * size + at / Stride; };
    for (std::size_t row = 0; row < rows; ++row, from += of_row) {
        for (std::size_t o = 0; o < windows; o += How::numbers) {
            lane made = *reinterpret_cast<const loose*>(from + o);
            for (std::size_t k = 1; k < taps.whole; ++k) {
                const lane each = *reinterpret_cast<const loose*>(from + o + place(k * taps.step));
                How::take(made, each);
            }
            if (taps.has_last) {
                const lane each = *reinterpret_cast<const loose*>(from + o + place(taps.last));
                How::take(made, each);
            }
            give(row, o, made);
        }
    }
}

template <typename Number>
[[gnu::always_inline]] inline void clear(Number* to, std::size_t count, Number none) {
    for (std::size_t i = 0; i < count; ++i) to[i] = none;
}

// Calls give(row, o, lane) for all windows, row by row.
template <typename How, typename Give>
[[gnu::always_inline]] inline void pool_rows(const pooled_windows& of, Give& give) {
    constexpr std::size_t slack = line_memory<How>::slack;
    line_memory<How> memory;
    const read_line line = line_of(of);
    const std::size_t step = of.stride[2] <= most_phases ? of.stride[2] : 1;
    const std::size_t pitch = (line.columns + step - 1) / step * step, rows = of.last_row - of.first_row;
    std::size_t together = pooled_windows::most_columns / pitch;
    if (together > rows) together = rows;
    if (together == 0) together = 1;
    clear(memory.lines, together * pitch + slack, How::none);
    if (step != 1) clear(memory.phases, together * pitch + step * 2 * slack, How::none);
    const bool are_changed = How::may_overlap && of.window[2] >= joined_columns;
    row_place at(of);
    for (std::size_t first = 0; first < rows; first += together) {
        const std::size_t some = rows - first < together ? rows - first : together;
        if (are_changed && first != 0) clear(memory.lines, some * pitch + slack, How::none);
        for (std::size_t row = 0; row < some; ++row, at.advance(of))
            join_lines<How>(of, at, line, memory.lines + row * pitch + line.left);
        const column_taps taps = join_columns<How>(of, memory.lines, (some - 1) * pitch + line.columns);
        give.first_row = of.first_row + first;
        switch (of.stride[2]) {
            case 1: take_columns<How, 1>(of, taps, some, pitch, memory, give); break;
            case 2: take_columns<How, 2>(of, taps, some, pitch, memory, give); break;
            case 3: take_columns<How, 3>(of, taps, some, pitch, memory, give); break;
            case 4: take_columns<How, 4>(of, taps, some, pitch, memory, give); break;
            default: take_far_columns<How>(of, taps, some, pitch, memory, give);
        }
    }
}

struct give_largest {
    const pooled_windows& of;
    std::size_t first_row = 0;

    [[gnu::always_inline]] void operator()(std::size_t row, std::size_t o, const kernels::number_lane& made) const {
        float* const to = of.y + (first_row + row) * of.output[2] + of.begin + o;
        const std::size_t left = of.end - of.begin - o;
        if (left >= kernels::lane_numbers) {
            *reinterpret_cast<kernels::loose_number_lane*>(to) = made;
        } else {
            store_some(made, left, to);
        }
    }
};

// (A product with the reciprocal in f64 is off by less than f32 keeps.)
struct give_mean {
    const pooled_windows& of;
    row_place at;  // of the next row
    std::size_t first_row = 0;
    double factor = 0;  // of this row
    double factors[pooled_windows::most_windows + sum_of::numbers];

    explicit give_mean(const pooled_windows& windows) : of(windows), at(windows) {
        clear(factors, pooled_windows::most_windows + sum_of::numbers, 0.0);
        for (std::size_t o = of.begin; o < of.end; ++o) factors[o - of.begin] = share_of(counted(o, 2));
    }
    std::size_t counted(std::size_t o, std::size_t d) const { return part_of(of, o, d, of.counts_padding).count; }
    static double share_of(std::size_t count) { return count == 0 ? 0 : 1 / static_cast<double>(count); }

    [[gnu::always_inline]] void operator()(std::size_t row, std::size_t o, const kernels::wide_lane& sums) {
        if (o == 0) {
            factor = share_of(counted(at.o0, 0) * counted(at.o1, 1));
            at.advance(of);
        }
        float* const to = of.y + (first_row + row) * of.output[2] + of.begin + o;
        const std::size_t left = of.end - of.begin - o;
        const kernels::wide_lane here = *reinterpret_cast<const sum_of::loose_lane*>(factors + o);
        const kernels::wide_lane made = sums * (here * factor);
        if (left >= sum_of::numbers) {
            kernels::half_lane given;
            kernels::narrow(made, given);
            *reinterpret_cast<kernels::loose_half_lane*>(to) = given;
        } else {
            store_some(made, left, to);
        }
    }
};

void pool_largest(const pooled_windows& of) noexcept {
    give_largest give{of};
    pool_rows<largest_of>(of, give);
}
void pool_means(const pooled_windows& of) noexcept {
    give_mean give(of);
    pool_rows<sum_of>(of, give);
}

constexpr pooling_loops pooling_loops_of_this_unit = {&pool_largest, &pool_means};

}  // namespace
}  // namespace sluice::nn::operators
