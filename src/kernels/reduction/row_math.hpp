// SPDX-License-Identifier: Apache-2.0
// row_math: sums and extremes of many f32 numbers, and what norms and softmax do with rows and columns of them, by a
// CPU's vector units.
//
//     const double sum = row_math_of_this_processor().sum(x, count, 0);
//
// Sums are made in f64, the elements of a row in an order of their own, which depends on the count only; those of a
// column one after the other. So a result in a batch, which is the first axis, depends on its own numbers
// alone. exp is that of vector_math.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::kernels {

struct row_math {
    // Of the numbers of a row; of their distances to the centre where squares or exp are summed.
    using row_function = double (*)(const float* x, std::size_t count, double centre) noexcept;
    // Adds a row to the numbers of as many columns. At most `most_columns`.
    using column_function = void (*)(const float* x, double* to, const double* centres, std::size_t count) noexcept;
    static constexpr std::size_t most_columns = 256;
    // Shorter rows are faster as columns.
    static constexpr std::size_t short_row = 16;

    struct reduction {
        row_function of_row;
        column_function of_columns;
    };
    reduction sum, absolute_sum, square_sum, exponential_sum;
    // NaN if a number is NaN. A row is not empty.
    reduction maximum, minimum;

    // Of the numbers, and of *low and *high, the smallest and the largest: these become them. Without NaN.
    void (*range)(const float* x, std::size_t count, float* low, float* high) noexcept;

    // y = ((x - high) - low) * factor * scale + bias, each of y[i]; scale and bias null: 1 and 0.
    void (*normalize)(const float* x, float* y, std::size_t count, float high, float low, float factor,
                      const float* scale, const float* bias) noexcept;
    // The same with one scale and one bias for all.
    void (*normalize_alike)(const float* x, float* y, std::size_t count, float high, float low, float factor,
                            float scale, float bias) noexcept;
    // Of each column, at most `most_columns`, whose elements are `stride` apart: exp(x - largest) over their sum, or
    // the logarithm of that.
    void (*softmax_columns)(const float* x, float* y, std::size_t stride, std::size_t length, std::size_t columns,
                            bool is_logarithm) noexcept;

    // Turns rows: y[i * y_stride + r] = x[r * x_stride + i], for `rows` rows of `length` elements.
    void (*turn)(const float* x, std::size_t x_stride, float* y, std::size_t y_stride, std::size_t rows,
                 std::size_t length) noexcept;

    // Of as many columns, the greatest or the least element so far, and its number. NaN comes before all others.
    struct extreme_columns {
        float* most;
        std::int32_t* at;
    };
    // Looks at a row, whose number is `row`. Of equal ones the first is kept, or the last one with takes_equal.
    void (*extreme_index)(const float* x, std::int32_t row, bool is_maximum, bool takes_equal,
                          const extreme_columns& of, std::size_t count) noexcept;
    // The same of a row, which is not empty: the number of its element.
    std::size_t (*extreme_place)(const float* x, std::size_t count, bool is_maximum, bool takes_last) noexcept;
};

extern const row_math row_math_baseline, row_math_avx2, row_math_avx512;

// Those that this processor can run, the best one first.
std::vector<const row_math*> known_row_math();
// The best one.
const row_math& row_math_of_this_processor();

}  // namespace sluice::kernels
