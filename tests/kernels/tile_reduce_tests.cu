// SPDX-License-Identifier: Apache-2.0
// Reductions and broadcasts of tiles, and tiles with another number beyond the edges.
#include "sluice/kernels/tile_reduce.hpp"

#include <cmath>
#include <limits>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/tile_launch.hpp"

namespace sluice::conformance::tile_reduce_tests {
namespace {

// Small whole numbers: every order of summation gives the same.
template <typename T = float>
std::vector<T> small_numbers(std::size_t count, std::size_t seed) {
    std::vector<T> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(T(float((i * 7 + i / 11 + seed) % 9) - 6));
    return made;
}

// Of one tile: sums, maxima, and each spread over a matrix again.
template <typename T, int Rows, int Columns>
struct reduce_a_tile {
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const T, Rows, Columns> x,
                                  vector_tiles_of<float, Rows> sums_of_rows,
                                  vector_tiles_of<float, Columns> sums_of_columns, vector_tiles_of<T, Rows> max_of_rows,
                                  vector_tiles_of<T, Columns> max_of_columns,
                                  tiles_of<float, Rows, Columns> spread) const {
        const auto mine = x.load(at);
        const auto rows = row_sums(mine);
        const auto columns = column_sums(mine);
        sums_of_rows.store(at, reshape<1, Rows>(rows));
        sums_of_columns.store(at, columns);
        max_of_rows.store(at, reshape<1, Rows>(row_maxima(mine)));
        max_of_columns.store(at, column_maxima(mine));
        const auto all = row_sums(columns);  // one number
        const auto both = map(broadcast<Rows, Columns>(rows), broadcast<Rows, Columns>(columns),
                              [](float a, float b) { return 1000 * a + b; });
        spread.store(at, map(both, broadcast<Rows, Columns>(all), [](float a, float b) { return a - b; }));
    }
};

struct softmax_rows {  // of a matrix of at most 64 columns
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 16, 64> x) const {
        const auto mine = x.load(at, -INFINITY);
        const auto largest = broadcast<16, 64>(row_maxima(mine));
        const auto powers = map(mine, largest, [](float a, float b) { return expf(a - b); });
        const auto sums = broadcast<16, 64>(row_sums(powers));
        x.store(at, map(powers, sums, [](float a, float b) { return a / b; }));
    }
};

struct products_of_lines {  // of a matrix in one tile
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const float, 8, 4> x, vector_tiles_of<float, 8> rows,
                                  vector_tiles_of<float, 4> columns) const {
        const auto multiply = [](float a, float b) { return a * b; };
        const auto mine = x.load(at.row(), at.column(), 1);  // what is beyond changes no product
        rows.store(at, reshape<1, 8>(combine_rows(mine, multiply)));
        columns.store(at, combine_columns(mine, multiply));
    }
};

struct largest_of_each_block {  // of a vector that may be all negative
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<const float, 64> x,
                                  vector_tiles_of<float, 1> largest) const {
        largest.store(at, row_maxima(x.load(at.index(), -INFINITY)));
    }
};

CONFORMANCE_SUITE(tile_reductions);

template <typename T, int Rows, int Columns>
auto reduced(const std::vector<T>& x) {
    return zip(upload(x, {Rows, Columns}), zeros<float>({Rows}), zeros<float>({Columns}), zeros<T>({Rows}),
               zeros<T>({Columns}), zeros<float>({Rows, Columns}))
        .and_then([](auto in, auto rows, auto columns, auto row_peaks, auto column_peaks, auto spread) {
            const auto all = each_of(spread);
            return launch(reduce_a_tile<T, Rows, Columns>{}, all, std::move(in), std::move(rows), std::move(columns),
                          std::move(row_peaks), std::move(column_peaks), std::move(spread));
        })
        .and_then([](auto... each) { return zip(download(std::move(each))...); });
}

template <typename T, int Rows, int Columns, typename Sync>
void expect_reductions(const Sync& sync_now) {
    const auto x = small_numbers<T>(Rows * Columns, 3);
    const auto [rows, columns, row_peaks, column_peaks, spread] = sync_now(reduced<T, Rows, Columns>(x));
    floats row_expected(Rows), column_expected(Columns), row_peak(Rows, -100), column_peak(Columns, -100);
    float all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float each = x[i];
        const std::size_t r = i / Columns, c = i % Columns;
        row_expected[r] += each;
        column_expected[c] += each;
        row_peak[r] = std::max(row_peak[r], each);
        column_peak[c] = std::max(column_peak[c], each);
        all += each;
    }
    EXPECT_EQ(rows, row_expected) << Rows << "x" << Columns;
    EXPECT_EQ(columns, column_expected) << Rows << "x" << Columns;
    EXPECT_EQ(floats(row_peaks.begin(), row_peaks.end()), row_peak) << Rows << "x" << Columns;
    EXPECT_EQ(floats(column_peaks.begin(), column_peaks.end()), column_peak) << Rows << "x" << Columns;
    for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(spread[i], 1000 * row_expected[i / Columns] + column_expected[i % Columns] - all)
            << Rows << "x" << Columns << " " << i;
}

}  // namespace

TEST_P(tile_reductions, combine_rows_and_columns_and_spread_them_again) {
    round_robin pool(on, 2);
    const auto now = [&](auto operation) { return sync(std::move(operation), pool); };
    expect_reductions<float, 16, 32>(now);
    expect_reductions<float, 1, 1>(now);
    expect_reductions<float, 2, 1>(now);
    expect_reductions<float, 1, 64>(now);
    expect_reductions<float, 256, 2>(now);  // more rows than threads
    expect_reductions<float, 2, 512>(now);
    expect_reductions<float, 64, 64>(now);
    expect_reductions<half, 32, 16>(now);
    expect_reductions<half, 4, 2>(now);
    expect_reductions<bfloat16, 8, 128>(now);
}

TEST_P(tile_reductions, make_a_softmax_of_rows_that_no_tile_fits) {
    round_robin pool(on, 2);
    const std::size_t rows = 21, columns = 45;
    const auto x = small_numbers(rows * columns, 4);  // a row may be all negative: zeros beyond would be larger
    const floats got = sync(launch(softmax_rows{}, upload(x, {rows, columns})).and_then(download), pool);
    for (std::size_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c) sum += std::exp(double{x[r * columns + c]});
        for (std::size_t c = 0; c < columns; ++c)
            ASSERT_NEAR(got[r * columns + c], std::exp(double{x[r * columns + c]}) / sum, 1e-6) << r << " " << c;
    }
}

TEST_P(tile_reductions, take_any_function_and_any_number_beyond_the_edges) {
    round_robin pool(on, 2);
    const std::vector<float> x{1, 2, 3, 2, -1, 2, 4, 1, 1, 3, 2, -2, 1, 1, 5};  // [5, 3]
    auto products = zip(upload(x, {5, 3}), zeros<float>({8}), zeros<float>({4}))
                        .and_then([](auto in, auto rows, auto columns) {
                            const auto all = each_of(rows);
                            return launch(products_of_lines{}, all, std::move(in), std::move(rows), std::move(columns));
                        })
                        .and_then([](auto rows, auto columns) {
                            return zip(download(std::move(rows)), download(std::move(columns)));
                        });
    const auto [rows, columns] = sync(std::move(products), pool);
    EXPECT_EQ(rows, (floats{6, -4, 4, -12, 5, 1, 1, 1}));
    EXPECT_EQ(columns, (floats{24, -4, -60, 1}));

    const floats negative(150, -3);
    auto largest = launch(largest_of_each_block{}, upload(negative, {150}), zeros<float>({3})).and_then(download);
    EXPECT_EQ(sync(std::move(largest), pool), floats(3, -3));
}

TEST_P(tile_reductions, keep_nan) {
    round_robin pool(on, 2);
    for (const std::size_t place : {std::size_t{0}, std::size_t{5}, std::size_t{31}}) {
        floats x = small_numbers(32, 1);
        x[place] = nan;
        auto largest = launch(largest_of_each_block{}, upload(x, {32}), zeros<float>({1})).and_then(download);
        EXPECT_TRUE(std::isnan(sync(std::move(largest), pool)[0])) << place;
    }
}

}  // namespace sluice::conformance::tile_reduce_tests
