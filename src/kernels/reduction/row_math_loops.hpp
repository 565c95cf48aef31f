// SPDX-License-Identifier: Apache-2.0
// The functions of row_math.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>

#include "kernels/elementwise/vector_math_loops.hpp"
#include "kernels/reduction/row_math.hpp"

namespace sluice::kernels {
namespace {

// Eight at a time, on every unit: the order of a sum is the same. (g++ takes a wider vector apart.)
using sum_lane __attribute__((vector_size(64))) = double;
using summed_lane __attribute__((vector_size(32))) = float;
using loose_summed_lane __attribute__((vector_size(32), aligned(4))) = float;
constexpr std::size_t summed_at_once = 8;

// (g++ 12 would convert halves of a vector and join them.)
[[gnu::always_inline]] inline void widen_eight(const float* x, sum_lane& to) {
#if defined(__AVX512F__)
    to = reinterpret_cast<sum_lane>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x)));
#else
    const summed_lane few = *reinterpret_cast<const loose_summed_lane*>(x);
    to = __builtin_convertvector(few, sum_lane);
#endif
}
// Fewer than eight numbers. What the others are, clear_beyond changes to 0.
[[gnu::always_inline]] inline void widen_some(const float* x, std::size_t count, sum_lane& to) {
#if defined(__AVX2__)
    static const int all[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const __m256i which = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(all + (summed_at_once - count)));
    const summed_lane few = reinterpret_cast<summed_lane>(_mm256_maskload_ps(x, which));
    to = __builtin_convertvector(few, sum_lane);
#else
    float few[summed_at_once] = {};
    for (std::size_t k = 0; k < count; ++k) few[k] = x[k];
    widen_eight(few, to);
#endif
}
[[gnu::always_inline]] inline void clear_beyond(std::size_t count, sum_lane& to) {
    using bits __attribute__((vector_size(64))) = long long;
    static const long long all[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    using loose_bits __attribute__((vector_size(64), aligned(8))) = long long;
    const bits which = *reinterpret_cast<const loose_bits*>(all + (summed_at_once - count));
    to = reinterpret_cast<sum_lane>(reinterpret_cast<bits>(to) & which);
}

// --- what is done with each number ---------------------------------------------------------------------------------

struct own_number {
    template <typename T, typename Centre>
    [[gnu::always_inline]] static void prepare(T&, const Centre&) {}
};
struct magnitude_of_number {
    template <typename T, typename Centre>
    [[gnu::always_inline]] static void prepare(T& x, const Centre&) {
        x = x < 0 ? -x : x;
    }
};
struct square_of_distance {
    template <typename T, typename Centre>
    [[gnu::always_inline]] static void prepare(T& x, const Centre& centre) {
        const T distance = x - centre;
        x = distance * distance;
    }
};

template <typename Prepared>
double sum_of_row(const float* x, std::size_t count, double centre) noexcept {
    sum_lane sums[4] = {};
    std::size_t i = 0;
    for (; i + 4 * summed_at_once <= count; i += 4 * summed_at_once) {
        for (std::size_t k = 0; k < 4; ++k) {
            sum_lane each;
            widen_eight(x + i + k * summed_at_once, each);
            Prepared::prepare(each, centre);
            sums[k] += each;
        }
    }
    for (; i + summed_at_once <= count; i += summed_at_once) {
        sum_lane each;
        widen_eight(x + i, each);
        Prepared::prepare(each, centre);
        sums[i / summed_at_once % 4] += each;
    }
    if (i != count) {
        sum_lane each;
        widen_some(x + i, count - i, each);
        Prepared::prepare(each, centre);
        clear_beyond(count - i, each);
        sums[i / summed_at_once % 4] += each;  // 0 changes no sum: none is -0
    }
    const sum_lane all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return ((all[0] + all[1]) + (all[2] + all[3])) + ((all[4] + all[5]) + (all[6] + all[7]));
}

template <typename Prepared>
void sum_of_columns(const float* x, double* to, const double* centres, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        double each = static_cast<double>(x[i]);
        Prepared::prepare(each, centres[i]);
        to[i] += each;
    }
}

constexpr std::size_t exp_at_once = 256;
static_assert(exp_at_once >= row_math::most_columns);

double exponential_sum_of_row(const float* x, std::size_t count, double centre) noexcept {
    float made[exp_at_once];
    made[0] = 0;  // g++ would warn
    const auto middle = static_cast<float>(centre);
    double sum = 0;
    for (std::size_t i = 0; i < count; i += exp_at_once) {
        const std::size_t size = count - i < exp_at_once ? count - i : exp_at_once;
        for (std::size_t k = 0; k < size; ++k) made[k] = x[i + k] - middle;
        over<exponential_lane>(made, made, size);
        sum += sum_of_row<own_number>(made, size, 0);
    }
    return sum;
}

void exponential_sum_of_columns(const float* x, double* to, const double* centres, std::size_t count) noexcept {
    float made[exp_at_once];
    made[0] = 0;
    for (std::size_t i = 0; i < count; ++i) made[i] = x[i] - static_cast<float>(centres[i]);
    over<exponential_lane>(made, made, count);
    for (std::size_t i = 0; i < count; ++i) to[i] += static_cast<double>(made[i]);
}

// --- extremes ------------------------------------------------------------------------------------------------------

// The largest or the smallest number of each lane so far, and whether there was NaN. (Where the unit has an instruction
// for it: the compiler needs three.)
template <bool IsMaximum>
struct extreme_lanes {
    number_lane most;
#if defined(__AVX512F__)
    __mmask16 odd = 0;

    [[gnu::always_inline]] void take(const number_lane& x) {
        const __m512 each = reinterpret_cast<__m512>(x), before = reinterpret_cast<__m512>(most);
        odd = static_cast<__mmask16>(odd | _mm512_cmp_ps_mask(each, each, _CMP_UNORD_Q));
        most = reinterpret_cast<number_lane>(IsMaximum ? _mm512_maskz_max_ps(0xffff, each, before)
                                                       : _mm512_maskz_min_ps(0xffff, each, before));
    }
    [[gnu::always_inline]] bool has_odd() const { return odd != 0; }
#else
    bit_lane odd = {};

    [[gnu::always_inline]] void take(const number_lane& x) {
        odd |= x != x;
        most = (IsMaximum ? x > most : x < most) ? x : most;
    }
    [[gnu::always_inline]] bool has_odd() const {
        int made = 0;
        for (std::size_t k = 0; k < lane_numbers; ++k) made |= odd[k];
        return made != 0;
    }
#endif
};

template <bool IsMaximum>
double extreme_of_row(const float* x, std::size_t count, double) noexcept {
    constexpr std::size_t side_by_side = 4, together = side_by_side * lane_numbers;
    extreme_lanes<IsMaximum> all[side_by_side];
    for (auto& each : all) each.most = number_lane{} + x[0];
    std::size_t i = 0;
    for (; i + together <= count; i += together) {
        for (std::size_t k = 0; k < side_by_side; ++k) {
            const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i + k * lane_numbers);
            all[k].take(each);
        }
    }
    for (; i + lane_numbers <= count; i += lane_numbers) {
        const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i);
        all[0].take(each);
    }
    number_lane rest;
    rest_of_row(x + i, count - i, x[0], rest);
    all[1].take(rest);
    bool is_odd = false;
    for (const auto& each : all) is_odd |= each.has_odd();
    if (is_odd) return static_cast<double>(__builtin_nanf(""));
    all[0].take(all[2].most);
    all[1].take(all[3].most);
    all[0].take(all[1].most);
    float made = all[0].most[0];
    for (std::size_t k = 1; k < lane_numbers; ++k) {
        const float each = all[0].most[k];
        made = (IsMaximum ? each > made : each < made) ? each : made;
    }
    return static_cast<double>(made);
}

template <bool IsMaximum>
void extreme_of_columns(const float* x, double* to, const double*, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const double each = static_cast<double>(x[i]), before = to[i];
        const double made = (IsMaximum ? before < each : each < before) ? each : before;
        to[i] = each != each ? each : made;
    }
}

void range_of_row(const float* x, std::size_t count, float* low, float* high) noexcept {
    constexpr std::size_t side_by_side = 4;
    number_lane least[side_by_side], most[side_by_side];
    for (std::size_t k = 0; k < side_by_side; ++k) {
        least[k] = number_lane{} + *low;
        most[k] = number_lane{} + *high;
    }
    const auto take = [&](const number_lane& each, std::size_t k) __attribute__((always_inline)) {
        least[k] = each < least[k] ? each : least[k];
        most[k] = each > most[k] ? each : most[k];
    };
    std::size_t i = 0;
    for (; i + side_by_side * lane_numbers <= count; i += side_by_side * lane_numbers) {
        for (std::size_t k = 0; k < side_by_side; ++k) {
            const number_lane each = *reinterpret_cast<const loose_number_lane*>(x + i + k * lane_numbers);
            take(each, k);
        }
    }
    for (; i < count; ++i) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
    for (std::size_t k = 0; k < side_by_side; ++k) {
        for (std::size_t lane = 0; lane < lane_numbers; ++lane) {
            *low = least[k][lane] < *low ? least[k][lane] : *low;
            *high = most[k][lane] > *high ? most[k][lane] : *high;
        }
    }
}

// --- norms and softmax -----------------------------------------------------------------------------------------------

void normalize_row(const float* x, float* y, std::size_t count, float high, float low, float factor, const float* scale,
                   const float* bias) noexcept {
    if (scale != nullptr && bias != nullptr) {
        for (std::size_t i = 0; i < count; ++i) y[i] = ((x[i] - high) - low) * factor * scale[i] + bias[i];
    } else if (scale != nullptr) {
        for (std::size_t i = 0; i < count; ++i) y[i] = ((x[i] - high) - low) * factor * scale[i];
    } else {
        for (std::size_t i = 0; i < count; ++i) y[i] = ((x[i] - high) - low) * factor;
    }
}

void normalize_row_alike(const float* x, float* y, std::size_t count, float high, float low, float factor, float scale,
                         float bias) noexcept {
    for (std::size_t i = 0; i < count; ++i) y[i] = ((x[i] - high) - low) * factor * scale + bias;
}

void softmax_of_columns(const float* x, float* y, std::size_t stride, std::size_t length, std::size_t columns,
                        bool is_logarithm) noexcept {
    float most[exp_at_once];
    double sums[exp_at_once] = {};
    for (std::size_t i = 0; i < columns; ++i) most[i] = x[i];
    for (std::size_t r = 1; r < length; ++r) {
        const float* const row = x + r * stride;
        for (std::size_t i = 0; i < columns; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
    }
    for (std::size_t r = 0; r < length; ++r) {
        const float* const row = x + r * stride;
        float* const made = y + r * stride;
        for (std::size_t i = 0; i < columns; ++i) made[i] = row[i] - most[i];
        over<exponential_lane>(made, made, columns);
        for (std::size_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(made[i]);
    }
    if (is_logarithm) {
        float logarithms[exp_at_once];
        for (std::size_t i = 0; i < columns; ++i) logarithms[i] = static_cast<float>(__builtin_log(sums[i]));
        for (std::size_t r = 0; r < length; ++r) {
            const float* const row = x + r * stride;
            float* const made = y + r * stride;
            for (std::size_t i = 0; i < columns; ++i) made[i] = (row[i] - most[i]) - logarithms[i];
        }
        return;
    }
    for (std::size_t i = 0; i < columns; ++i) most[i] = static_cast<float>(1 / sums[i]);
    for (std::size_t r = 0; r < length; ++r) {
        float* const made = y + r * stride;
        for (std::size_t i = 0; i < columns; ++i) made[i] *= most[i];
    }
}

// --- rows as columns -------------------------------------------------------------------------------------------------

using quad __attribute__((vector_size(16))) = float;
using loose_quad __attribute__((vector_size(16), aligned(4))) = float;

[[gnu::always_inline]] inline void turn_four(const float* x, std::size_t x_stride, float* y, std::size_t y_stride) {
    const quad a = *reinterpret_cast<const loose_quad*>(x), b = *reinterpret_cast<const loose_quad*>(x + x_stride),
               c = *reinterpret_cast<const loose_quad*>(x + 2 * x_stride),
               d = *reinterpret_cast<const loose_quad*>(x + 3 * x_stride);
    const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
               ab_end = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd_end = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *reinterpret_cast<loose_quad*>(y) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *reinterpret_cast<loose_quad*>(y + y_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *reinterpret_cast<loose_quad*>(y + 2 * y_stride) = __builtin_shufflevector(ab_end, cd_end, 0, 1, 4, 5);
    *reinterpret_cast<loose_quad*>(y + 3 * y_stride) = __builtin_shufflevector(ab_end, cd_end, 2, 3, 6, 7);
}

void turn_rows(const float* x, std::size_t x_stride, float* y, std::size_t y_stride, std::size_t rows,
               std::size_t length) noexcept {
    const std::size_t whole_rows = rows / 4 * 4, whole_length = length / 4 * 4;
    for (std::size_t r = 0; r < whole_rows; r += 4)
        for (std::size_t i = 0; i < whole_length; i += 4)
            turn_four(x + r * x_stride + i, x_stride, y + i * y_stride + r, y_stride);
    for (std::size_t i = whole_length; i < length; ++i)
        for (std::size_t r = 0; r < whole_rows; ++r) y[i * y_stride + r] = x[r * x_stride + i];
    for (std::size_t r = whole_rows; r < rows; ++r)
        for (std::size_t i = 0; i < length; ++i) y[i * y_stride + r] = x[r * x_stride + i];
}

template <bool IsMaximum, bool TakesEqual>
[[gnu::always_inline]] inline void extreme_index_of(const float* x, std::int32_t row,
                                                    const row_math::extreme_columns& of, std::size_t count) {
    float* const most = of.most;
    std::int32_t* const at = of.at;
    for (std::size_t i = 0; i < count; ++i) {
        const float each = x[i], before = most[i];
        const bool is_odd = each != each, was_odd = before != before;
        const bool is_more = IsMaximum ? each > before : each < before;
        const bool taken = TakesEqual ? is_odd | is_more | (each == before) : is_more | (is_odd & !was_odd);
        most[i] = taken ? each : before;
        at[i] = taken ? row : at[i];
    }
}
void extreme_index_of_columns(const float* x, std::int32_t row, bool is_maximum, bool takes_equal,
                              const row_math::extreme_columns& of, std::size_t count) noexcept {
    if (is_maximum) {
        takes_equal ? extreme_index_of<true, true>(x, row, of, count)
                    : extreme_index_of<true, false>(x, row, of, count);
    } else {
        takes_equal ? extreme_index_of<false, true>(x, row, of, count)
                    : extreme_index_of<false, false>(x, row, of, count);
    }
}

// Whether a number is `wanted`, or NaN with IsOdd.
template <bool IsOdd>
[[gnu::always_inline]] inline bool has_number(const float* x, std::size_t count, float wanted) {
    unsigned found = 0;
    for (std::size_t k = 0; k < count; ++k) found |= (IsOdd ? x[k] != x[k] : x[k] == wanted) ? 1u : 0u;
    return found != 0;
}
// The first or the last of these numbers. There is one.
template <bool IsOdd>
std::size_t place_of_number(const float* x, std::size_t count, float wanted, bool takes_last) {
    constexpr std::size_t block = 128;
    std::size_t first = 0, last = count;
    const auto is_wanted = [&](std::size_t i) { return IsOdd ? x[i] != x[i] : x[i] == wanted; };
    if (takes_last) {
        while (last > block && !has_number<IsOdd>(x + last - block, block, wanted)) last -= block;
        do {
            --last;
        } while (last != 0 && !is_wanted(last));
        return last;
    }
    while (first + block < count && !has_number<IsOdd>(x + first, block, wanted)) first += block;
    while (first + 1 < count && !is_wanted(first)) ++first;
    return first;
}
std::size_t extreme_place_of_row(const float* x, std::size_t count, bool is_maximum, bool takes_last) noexcept {
    const double most = is_maximum ? extreme_of_row<true>(x, count, 0) : extreme_of_row<false>(x, count, 0);
    return most != most ? place_of_number<true>(x, count, 0, takes_last)
                        : place_of_number<false>(x, count, static_cast<float>(most), takes_last);
}

constexpr row_math row_math_of_this_unit = {
    .sum = {&sum_of_row<own_number>, &sum_of_columns<own_number>},
    .absolute_sum = {&sum_of_row<magnitude_of_number>, &sum_of_columns<magnitude_of_number>},
    .square_sum = {&sum_of_row<square_of_distance>, &sum_of_columns<square_of_distance>},
    .exponential_sum = {&exponential_sum_of_row, &exponential_sum_of_columns},
    .maximum = {&extreme_of_row<true>, &extreme_of_columns<true>},
    .minimum = {&extreme_of_row<false>, &extreme_of_columns<false>},
    .range = &range_of_row,
    .normalize = &normalize_row,
    .normalize_alike = &normalize_row_alike,
    .softmax_columns = &softmax_of_columns,
    .turn = &turn_rows,
    .extreme_index = &extreme_index_of_columns,
    .extreme_place = &extreme_place_of_row,
};

}  // namespace
}  // namespace sluice::kernels
