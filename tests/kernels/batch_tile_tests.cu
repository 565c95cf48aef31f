// SPDX-License-Identifier: Apache-2.0
// Tile kernels over batches of matrices: a block's tile has three coordinates.
#include "sluice/kernels/batch_tiles.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/tile_kernels.hpp"

namespace sluice::conformance::batch_tile_tests {
namespace {

// Small whole numbers: every order of summation gives the same.
template <typename T = float>
std::vector<T> small_numbers(std::size_t count, std::size_t seed) {
    std::vector<T> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(T(float((i * 7 + seed) % 5) - 2));
    return made;
}

struct sizes {
    std::size_t batches, rows, columns, inner;
};
constexpr sizes all_sizes[] = {{1, 16, 16, 8}, {3, 1, 1, 1}, {5, 33, 17, 20}, {2, 64, 40, 31}};

floats exact_products(const floats& a, const floats& b, const sizes& of) {
    floats all;
    for (std::size_t i = 0; i < of.batches; ++i) {
        const auto part = [i](const floats& from, std::size_t size) {
            const auto first = from.begin() + static_cast<std::ptrdiff_t>(i * size);
            return floats(first, first + static_cast<std::ptrdiff_t>(size));
        };
        const auto sums = product(part(a, of.rows * of.inner), part(b, of.inner * of.columns), {}, of.rows, of.columns,
                                  of.inner, false);
        all.insert(all.end(), sums.begin(), sums.end());
    }
    return all;
}

struct note_positions {  // where each number of z was, and how many blocks there are before its own
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<unsigned, 4, 8> z,
                                  vector_tiles_of<unsigned, 1> blocks) const {
        z.store(at, tile<unsigned, 4, 8>::full(at.batch() * 10'000 + at.row() * 100 + at.column()));
        blocks.store(at, tile<unsigned, 1, 1>::full(at.index()));
    }
};

struct add_to_each {  // z[i] += x[i] * y, where y is one matrix for all
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<float, 8, 8> z,
                                  batch_tiles_of<const float, 8, 4> x, tiles_of<const float, 4, 8> y) const {
        accumulator<float, 8, 8> sum(z.matrix(at), at);
        const auto left = x.matrix(at.batch());
        for (unsigned k = 0; k < left.across(); ++k) mma(left.load(at.row(), k), y.load(k, at.column()), sum);
        z.store(at, sum);
    }
};

struct double_each {
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<const float, 4, 8> x,
                                  batch_tiles_of<float, 4, 8> z) const {
        z.store(at, map(x.load(at), z.load(at), [](float a, float b) { return a + b; }));
    }
};

struct writes_a_matrix_too {
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<float, 4, 8> x, tiles_of<float, 4, 8> y) const {
        y.store(at, x.load(at));
        x.store(at, tile<float, 4, 8>::full(0));
    }
};

struct clear_tiles {
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<float> x) const {
        const auto tile = x.at(at);
        for (std::size_t row = 0; row < tile.rows(); ++row) {
            for (std::size_t column = 0; column < tile.columns(); ++column) tile(row, column) = 0;
        }
    }
};

CONFORMANCE_SUITE(batch_tiles);

auto in_batch_tiles(const shape& of) {
    return [of](auto x) { return batch_partition(std::move(x), of); };
}
constexpr auto whole = [](auto x) { return std::move(x).unpartition(); };

}  // namespace

TEST_P(batch_tiles, have_three_coordinates) {
    round_robin pool(on, 2);
    const std::size_t batches = 3, rows = 10, columns = 17;  // 3 x 3 tiles each
    auto both =
        zip(zeros<unsigned>({batches, rows, columns}), zeros<unsigned>({batches * 9}))
            .and_then([](auto z, auto blocks) {
                return launch(note_positions{}, each_of(z), std::move(z), std::move(blocks));
            })
            .and_then([](auto z, auto blocks) { return zip(download(std::move(z)), download(std::move(blocks))); });
    const auto [z, blocks] = sync(std::move(both), pool);
    for (std::size_t b = 0; b < batches; ++b) {
        for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = 0; c < columns; ++c) {
                const std::size_t place = (b * rows + r) * columns + c;
                ASSERT_EQ(z[place], b * 10'000 + r / 4 * 100 + c / 8) << b << " " << r << " " << c;
            }
        }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i], i);
}

TEST_P(batch_tiles, multiply_the_matrices_of_a_batch) {
    round_robin pool(on, 3);
    for (const sizes& of : all_sizes) {
        const auto [batches, rows, columns, inner] = of;
        const auto a = small_numbers(batches * rows * inner, 1), b = small_numbers(batches * inner * columns, 2);
        const auto expected = exact_products(a, b, of);
        auto into_tensor = launch(batch_gemm_tiles<float, 16, 16, 8>{}, upload(a, {batches, rows, inner}),
                                  upload(b, {batches, inner, columns}), uninitialized<float>({batches, rows, columns}))
                               .and_then(download);
        EXPECT_EQ(sync(std::move(into_tensor), pool), expected) << batches << " of " << rows << "x" << columns;
        auto into_tiles =
            zip(upload(a, {batches, rows, inner}), upload(b, {batches, inner, columns}),
                uninitialized<float>({batches, rows, columns}).transform(in_batch_tiles({1, 4, 8})))
                .and_then([](auto x, auto y, auto out) {
                    const auto all = each_of(out);
                    return launch(batch_gemm_tiles<float, 4, 8, 2>{}, all, std::move(x), std::move(y), std::move(out));
                })
                .transform(whole)
                .and_then(download);
        EXPECT_EQ(sync(std::move(into_tiles), pool), expected) << batches << " of " << rows << "x" << columns;
    }
    // On tensor cores, with a batch that is shared.
    const sizes of{4, 40, 70, 50};
    const auto a = small_numbers<half>(4 * 40 * 50, 1), b = small_numbers<half>(4 * 50 * 70, 2);
    const shared_tensor<half> shared_b(sync(upload(b, {4, 50, 70}), pool));
    auto halves = launch(batch_gemm_tiles<half, 32, 32, 16>{}, upload(a, {4, 40, 50}), shared_b,
                         zeros<half>({4, 40, 70}).transform(in_batch_tiles({1, 32, 32})))
                      .transform(whole)
                      .and_then(download);
    EXPECT_EQ(as_floats(sync(std::move(halves), pool)), exact_products(as_floats(a), as_floats(b), of));
}

TEST_P(batch_tiles, add_to_what_is_there) {
    round_robin pool(on, 2);
    const std::size_t batches = 3, rows = 20, columns = 11, inner = 9;
    const auto x = small_numbers(batches * rows * inner, 1), y = small_numbers(inner * columns, 2);
    const auto before = small_numbers(batches * rows * columns, 3);
    // One matrix on the right: the batch is one tall matrix.
    floats expected = exact_products(x, y, {1, batches * rows, columns, inner});
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    auto sum = launch(add_to_each{}, upload(before, {batches, rows, columns}), upload(x, {batches, rows, inner}),
                      upload(y, {inner, columns}))
                   .and_then(download);
    EXPECT_EQ(sync(std::move(sum), pool), expected);
}

TEST_P(batch_tiles, of_a_batch_that_is_read_can_be_in_tiles_too) {
    round_robin pool(on, 2);
    const auto x = small_numbers(2 * 5 * 9, 1);
    auto sum = zip(upload(x, {2, 5, 9}).transform(in_batch_tiles({1, 2, 2})), upload(x, {2, 5, 9}))
                   .and_then([](auto from, auto z) { return launch(double_each{}, std::move(from), std::move(z)); })
                   .and_then(download);
    floats expected = x;
    for (float& each : expected) each *= 2;
    EXPECT_EQ(sync(std::move(sum), pool), expected);
}

TEST_P(batch_tiles, of_nothing_submit_nothing) {
    single_stream pool(on);
    stream home = pool.next();
    const auto x = sync(zeros<float>({0, 5, 9}), pool);
    auto z = sync(zeros<float>({0, 5, 9}), pool), empty = sync(zeros<float>({4, 0, 9}), pool);
    const auto read_empty = sync(zeros<float>({4, 0, 9}), pool);
    const ticket before = home.issued();
    launch_on(home, double_each{}, each_of(z), x, z);
    launch_on(home, double_each{}, each_of(empty), read_empty, empty);
    EXPECT_EQ(home.issued(), before);
}

TEST_P(batch_tiles, refuse_what_does_not_fit_before_anything_is_submitted) {
    single_stream pool(on);
    stream home = pool.next();
    using kernel = batch_gemm_tiles<float, 16, 16, 8>;
    auto a = sync(zeros<float>({2, 20, 8}), pool), b = sync(zeros<float>({2, 8, 20}), pool);
    auto c = sync(zeros<float>({2, 20, 20}), pool), other = sync(zeros<float>({3, 20, 20}), pool);
    auto matrix = sync(zeros<float>({20, 20}), pool);
    const auto parts = batch_partition(sync(zeros<float>({2, 20, 20}), pool), {1, 8, 8});
    const auto rows = sync(zeros<float>({20, 20}), pool).partition({16, 16});
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"batch_gemm_tiles", "do not fit products"},
                        [&] { launch_on(home, kernel{}, each_of(c), b, a, c); });
    expect_refused(errc::shape_mismatch, {"do not fit products"},
                   [&] { launch_on(home, kernel{}, each_of(other), a, b, other); });
    expect_refused(errc::shape_mismatch, {"[batch, rows, columns]", "[20, 20]"},
                   [&] { launch_on(home, kernel{}, each_of(matrix), a, b, matrix); });
    expect_refused(errc::shape_mismatch, {"tiles of [1, 16, 16]", "tiles of [1, 8, 8]"},
                   [&] { launch_on(home, kernel{}, each_of(parts), a, b, parts); });
    expect_refused(errc::shape_mismatch, {"tiles of [1, 16, 16]", "tiles of [16, 16]"},
                   [&] { launch_on(home, kernel{}, each_of(rows), a, b, rows); });
    expect_refused(errc::shape_mismatch, {"all tiles", "[2, 20, 20]", "[3, 20, 20]"},
                   [&] { launch_on(home, kernel{}, each_of(other), a, b, c); });
    expect_refused(errc::shape_mismatch, {"[2, 20, 20] in 2 x 5 x 3 tiles", "[20, 20] in 5 x 3"},
                   [&] { launch_on(home, writes_a_matrix_too{}, each_of(c), c, matrix); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(batch_tiles, are_not_for_kernels_with_a_tile_index) {
    single_stream pool(on);
    stream home = pool.next();
    const auto tiles = batch_partition(sync(zeros<float>({2, 20, 20}), pool), {1, 8, 8});
    auto out = sync(zeros<float>({20, 20}), pool).partition({8, 8});
    expect_refused_here(errc::shape_mismatch, {"clear_tiles", "tile_block"},
                        [&] { launch_on(home, clear_tiles{}, each_of(tiles), out); });
}

#if !SLUICE_CHECK_BOUNDS
TEST_P(batch_tiles, beyond_a_batch_that_is_read_are_zeros) {
    round_robin pool(on, 2);
    const auto x = small_numbers(2 * 5 * 9, 1);
    floats expected = small_numbers(3 * 5 * 9, 2);
    auto sum = zip(upload(x, {2, 5, 9}), upload(expected, {3, 5, 9}))
                   .and_then([](auto from, auto z) { return launch(double_each{}, std::move(from), std::move(z)); })
                   .and_then(download);
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] += x[i];
    EXPECT_EQ(sync(std::move(sum), pool), expected);
}
#endif

TEST_P(batch_tiles, are_of_one_matrix_each) {
    single_stream pool(on);
    const auto partition_of = [&](const shape& of, const shape& tile) {
        return [&, of, tile] { static_cast<void>(batch_partition(sluice::sync(zeros<float>(of), pool), tile)); };
    };
    const shape batch{2, 20, 20};
    expect_refused(errc::shape_mismatch, {"[2, 20, 20]", "[2, 4, 4]"}, partition_of(batch, {2, 4, 4}));
    expect_refused(errc::shape_mismatch, {"[1, rows, columns]", "[4, 4]"}, partition_of(batch, {4, 4}));
    expect_refused(errc::shape_mismatch, {"[1, 0, 4]"}, partition_of(batch, {1, 0, 4}));
    expect_refused(errc::shape_mismatch, {"[batch, rows, columns]", "[20, 20]"}, partition_of({20, 20}, {1, 4, 4}));
    const auto tiles = batch_partition(sync(zeros<float>(batch), pool), {1, 8, 16});
    EXPECT_EQ(tiles.batches(), 2u);
    EXPECT_EQ(tiles.tile_rows(), 3u);
    EXPECT_EQ(tiles.tile_columns(), 2u);
    EXPECT_EQ(each_of(tiles).over, (shape{2, 3, 2}));
}

}  // namespace sluice::conformance::batch_tile_tests
