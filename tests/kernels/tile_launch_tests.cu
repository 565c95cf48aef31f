// SPDX-License-Identifier: Apache-2.0
// Tile kernels as operations: what they compute, and what is refused.
#include "sluice/kernels/tile_launch.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/fill.hpp"
#include "sluice/kernels/tile_kernels.hpp"

namespace sluice::conformance::tile_launch_tests {
namespace {

struct sizes {
    std::size_t rows, columns, inner;
};
constexpr sizes all_sizes[] = {{64, 64, 64}, {1, 1, 1}, {65, 63, 17}, {130, 200, 96}, {7, 129, 250}};

// Small whole numbers: every order of summation gives the same.
template <typename T = float>
std::vector<T> small_numbers(std::size_t count, std::size_t seed) {
    std::vector<T> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(T(float((i * 7 + seed) % 5) - 2));
    return made;
}

floats exact_product(const floats& a, const floats& b, const sizes& of, bool transposed = false) {
    const auto sums = product(a, b, {}, of.rows, of.columns, of.inner, transposed);
    return {sums.begin(), sums.end()};
}

struct add_and_double {  // z = 2 * (z + x), and the block's number where each number of z was
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const float, 8, 16> x, tiles_of<float, 8, 16> z,
                                  tiles_of<unsigned, 8, 16> blocks) const {
        const auto sum = map(z.load(at), x.load(at), [](float a, float b) { return a + b; });
        z.store(at, map(sum, sum, [](float a, float b) { return a + b; }));
        blocks.store(at, tile<unsigned, 8, 16>::full(at.row() * 1000 + at.column() * 10 + (at.index() == 0)));
    }
};

struct two_products {  // out = (a * b) * c, without storing a * b
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const float, 16, 8> a, tiles_of<const float, 8, 4> b,
                                  tiles_of<const float, 4, 8> c, tiles_of<float, 16, 8> out) const {
        accumulator<float, 16, 8> sum;
        for (unsigned j = 0; j < b.across(); ++j) {
            accumulator<float, 16, 4> part;
            for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, j), part);
            mma(part.as_tile(), c.load(j, at.column()), sum);
        }
        out.store(at, sum);
    }
};

template <typename Arithmetic>
struct starts_from_a_tile {  // out = 3 + x * x^T, with the constant as a tile
    using element = detail::tile_factor<Arithmetic>;
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const element, 32, 16> x,
                                  tiles_of<element, 32, 32> out) const {
        accumulator<Arithmetic, 32, 32> sum(tile<float, 32, 32>::full(3));
        for (unsigned k = 0; k < x.across(); ++k) mma_transposed(x.load(at.row(), k), x.load(at.column(), k), sum);
        out.store(at, sum.as_tile());
    }
};

struct row_totals {  // totals = row sums of x, which has at most 32 columns; x *= by
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 16, 32> x, vector_tiles_of<float, 16> totals,
                                  float by) const {
        accumulator<float, 16, 1> sum;
        const auto mine = x.load(at);
        mma(mine, tile<float, 32, 1>::full(1), sum);
        totals.store(at, sum);
        x.store(at, map(mine, [by](float each) { return by * each; }));
    }
};

struct one_row_of_sums {  // y = column sums of x
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const float, 4, 8> x,
                                  vector_tiles_of<float, 8> y) const {
        accumulator<float, 1, 8> sum;
        for (unsigned row = 0; row < x.down(); ++row) mma(tile<float, 1, 4>::full(1), x.load(row, at.index()), sum);
        y.store(at, sum);
    }
};

struct add_one_early {
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, 64> x) const {
        dependency_wait();
        x.store(at, map(x.load(at), [](float each) { return each + 1; }));
    }
};

CONFORMANCE_SUITE(tile_launches);

auto in_tiles(const shape& of) {
    return [of](auto x) { return std::move(x).partition(of); };
}
constexpr auto whole = [](auto x) { return std::move(x).unpartition(); };

}  // namespace

TEST_P(tile_launches, give_back_the_partition_or_the_tensor_that_they_write) {
    round_robin pool(on, 3);
    for (const auto& [rows, columns, inner] : all_sizes) {
        const auto a = small_numbers(rows * inner, 1), b = small_numbers(inner * columns, 2);
        const auto expected = exact_product(a, b, {rows, columns, inner});
        const shared_tensor<float> shared_b(sync(upload(b, {inner, columns}), pool));
        auto into_tensor =
            zip(upload(a, {rows, inner}), uninitialized<float>({rows, columns}))
                .and_then([=](auto x, auto out) {
                    return launch(gemm_tiles<float, 16, 32, 8>{}, std::move(x), shared_b, std::move(out));
                })
                .and_then(download);
        EXPECT_EQ(sync(std::move(into_tensor), pool), expected);
        auto into_tiles =
            zip(upload(a, {rows, inner}), uninitialized<float>({rows, columns}).transform(in_tiles({4, 4})))
                .and_then([=](auto x, auto out) {
                    const auto all = each_of(out);
                    return launch(gemm_tiles<float, 4, 4, 2>{}, all, std::move(x), shared_b, std::move(out));
                })
                .transform(whole)
                .and_then(download);
        EXPECT_EQ(sync(std::move(into_tiles), pool), expected);
    }
}

TEST_P(tile_launches, submit_operations_among_their_arguments_first) {
    round_robin pool(on, 3);
    const auto a = small_numbers<half>(70 * 40, 1), b = small_numbers<half>(40 * 50, 2);
    const auto expected = exact_product(as_floats(a), as_floats(b), {70, 50, 40});
    using kernel = gemm_tiles<half, 32, 32, 16>;
    EXPECT_EQ(as_floats(sync(
                  launch(kernel{}, upload(a, {70, 40}), upload(b, {40, 50}), zeros<half>({70, 50})).and_then(download),
                  pool)),
              expected);
    EXPECT_EQ(as_floats(sync(launch(kernel{}, each_written(), upload(a, {70, 40}), upload(b, {40, 50}),
                                    zeros<half>({70, 50}).transform(in_tiles({32, 32})))
                                 .transform(whole)
                                 .and_then(download),
                             pool)),
              expected);
}

TEST_P(tile_launches, add_to_what_is_there) {
    round_robin pool(on, 2);
    for (const auto& [rows, columns, inner] : all_sizes) {
        const auto a = small_numbers(rows * inner, 3), b = small_numbers(inner * columns, 4);
        floats expected = exact_product(a, b, {rows, columns, inner});
        const floats before = small_numbers(rows * columns, 9);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
        const auto run = [&](auto kernel) {
            return sync(
                launch(kernel, upload(a, {rows, inner}), upload(b, {inner, columns}), upload(before, {rows, columns}))
                    .and_then(download),
                pool);
        };
        EXPECT_EQ(run(gemm_tiles<float, 16, 16, 8, true>{}), expected);
        EXPECT_EQ(run(gemm_tiles<tf32, 64, 32, 8, true>{}), expected);
    }
}

TEST_P(tile_launches, start_sums_from_constant_tiles_and_multiply_sums_again) {
    round_robin pool(on, 2);
    const auto x = small_numbers<bfloat16>(70 * 20, 2);
    floats expected = exact_product(as_floats(x), as_floats(x), {70, 70, 20}, true);
    for (float& each : expected) each += 3;
    auto starts = launch(starts_from_a_tile<bfloat16>{}, upload(x, {70, 20}), zeros<bfloat16>({70, 70}));
    EXPECT_EQ(as_floats(sync(std::move(starts).and_then(download), pool)), expected);

    const auto a = small_numbers(30 * 20, 1), b = small_numbers(20 * 9, 2), c = small_numbers(9 * 11, 3);
    auto twice =
        launch(two_products{}, upload(a, {30, 20}), upload(b, {20, 9}), upload(c, {9, 11}), zeros<float>({30, 11}))
            .and_then(download);
    EXPECT_EQ(sync(std::move(twice), pool), exact_product(exact_product(a, b, {30, 9, 20}), c, {30, 11, 9}));
}

TEST_P(tile_launches, give_several_outputs_in_the_order_of_the_arguments) {
    round_robin pool(on, 2);
    const auto x = small_numbers(20 * 40, 1);
    auto both =
        zip(upload(x, {20, 40}), ones<float>({20, 40}), zeros<unsigned>({20, 40}))
            .and_then([](auto in, auto z, auto blocks) {
                return launch(add_and_double{}, each_of(z), std::move(in), std::move(z), std::move(blocks));
            })
            .and_then([](auto z, auto blocks) { return zip(download(std::move(z)), download(std::move(blocks))); });
    const auto [z, blocks] = sync(std::move(both), pool);
    for (std::size_t r = 0; r < 20; ++r) {
        for (std::size_t c = 0; c < 40; ++c) {
            EXPECT_EQ(z[r * 40 + c], 2 * (1 + x[r * 40 + c]));
            EXPECT_EQ(blocks[r * 40 + c], r / 8 * 1000 + c / 16 * 10 + (r < 8 && c < 16 ? 1 : 0));
        }
    }
}

TEST_P(tile_launches, split_vectors_into_blocks) {
    round_robin pool(on, 2);
    for (const auto& [rows, columns, inner] : all_sizes) {
        const auto a = small_numbers(rows * inner, 1), x = small_numbers(inner, 2);
        floats expected = exact_product(a, x, {rows, 1, inner});
        for (float& each : expected) each = each < 0 ? 0 : each;
        auto chain =
            zip(upload(a, {rows, inner}), upload(x, {inner}), uninitialized<float>({rows}).transform(in_tiles({16})))
                .and_then([](auto matrix, auto vector, auto y) {
                    return launch(matvec_tiles<16, 32>{}, each_of(y), std::move(matrix), std::move(vector),
                                  std::move(y));
                })
                .transform(whole)
                .and_then([](auto y) { return launch(relu_tiles<vector_tiles_of<float, 64>>{}, std::move(y)); })
                .and_then(download);
        EXPECT_EQ(sync(std::move(chain), pool), expected) << rows << "x" << inner;
    }
    // A vector next to a matrix, and sums in a row.
    const auto x = small_numbers(40 * 20, 3);
    auto totals = zip(upload(x, {40, 20}), zeros<float>({40}))
                      .and_then([](auto in, auto out) {
                          return launch(row_totals{}, each_of(in), std::move(in), std::move(out), 0.5f);
                      })
                      .and_then([](auto half_of_x, auto sums) {
                          return zip(download(std::move(half_of_x)), download(std::move(sums)));
                      });
    const auto [halves, sums] = sync(std::move(totals), pool);
    const auto columns =
        sync(launch(one_row_of_sums{}, upload(x, {40, 20}), zeros<float>({20})).and_then(download), pool);
    floats row_sums(40), column_sums(20);
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(halves[i], x[i] / 2);
        row_sums[i / 20] += x[i];
        column_sums[i % 20] += x[i];
    }
    EXPECT_EQ(sums, row_sums);
    EXPECT_EQ(columns, column_sums);
}

TEST_P(tile_launches, keep_nan_and_leave_what_is_outside) {
    round_robin pool(on, 2);
    floats x = small_numbers(33 * 50, 1);
    x[0] = nan;
    auto all = launch(relu_tiles<tiles_of<float, 16, 64>>{}, upload(x, {33, 50})).and_then(download);
    const floats got = sync(std::move(all), pool);
    EXPECT_TRUE(std::isnan(got[0]));
    for (std::size_t i = 1; i < x.size(); ++i) ASSERT_EQ(got[i], x[i] < 0 ? 0 : x[i]) << i;
}

TEST_P(tile_launches, start_early_behind_a_kernel_on_their_stream) {
    single_stream pool(on);
    const auto add_one = [](auto x) {
        const auto all = each_of(x).early_start();
        return launch(add_one_early{}, all, std::move(x));
    };
    auto early = ones<float>({1000}).and_then(add_one).and_then(add_one).and_then(download);
    EXPECT_EQ(sync(std::move(early), pool), floats(1000, 3));
}

TEST_P(tile_launches, of_no_tiles_submit_nothing) {
    single_stream pool(on);
    stream home = pool.next();
    const auto a = sync(zeros<float>({0, 8}), pool), b = sync(zeros<float>({8, 4}), pool);
    auto out = sync(zeros<float>({0, 4}), pool);
    const ticket before = home.issued();
    launch_on(home, gemm_tiles<float, 16, 16, 8>{}, each_of(out), a, b, out);
    EXPECT_EQ(home.issued(), before);
    // No inner size: a sum of nothing.
    auto nothing =
        launch(gemm_tiles<float, 16, 16, 8>{}, zeros<float>({3, 0}), zeros<float>({0, 2}), full<float>({3, 2}, 5));
    EXPECT_EQ(sync(std::move(nothing).and_then(download), pool), floats(6, 0));
}

TEST_P(tile_launches, refuse_what_does_not_fit_before_anything_is_submitted) {
    single_stream pool(on);
    stream home = pool.next();
    using kernel = gemm_tiles<float, 16, 16, 8>;
    auto a = sync(zeros<float>({20, 8}), pool), b = sync(zeros<float>({8, 20}), pool);
    auto c = sync(zeros<float>({20, 20}), pool), other = sync(zeros<float>({20, 21}), pool);
    auto line = sync(zeros<float>({400}), pool);
    auto numbers = sync(zeros<unsigned>({20, 40}), pool);
    const auto blocks = sync(zeros<float>({20, 20}), pool).partition({8, 8});
    const auto parts = sync(zeros<float>({20, 20}), pool).partition({16, 16});
    const auto line_parts = sync(zeros<float>({20}), pool).partition({8});
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"gemm_tiles", "do not fit a product"},
                        [&] { launch_on(home, kernel{}, each_of(c), b, a, c); });
    expect_refused(errc::shape_mismatch, {"do not fit a product"},
                   [&] { launch_on(home, kernel{}, each_of(other), a, b, other); });
    expect_refused(errc::shape_mismatch, {"[400]"}, [&] { launch_on(home, kernel{}, each_of(c), a, line, c); });
    expect_refused(errc::shape_mismatch, {"[400]"}, [&] { launch_on(home, kernel{}, each_of(line), a, b, line); });
    expect_refused(errc::shape_mismatch, {"vector", "[20, 20]"},
                   [&] { launch_on(home, relu_tiles<vector_tiles_of<float, 64>>{}, each_of(c), c); });
    expect_refused(errc::shape_mismatch, {"tiles of [16, 16]", "tiles of [8, 8]"},
                   [&] { launch_on(home, kernel{}, each_of(blocks), a, b, blocks); });
    expect_refused(errc::shape_mismatch, {"tiles of [64]", "tiles of [8]"},
                   [&] { launch_on(home, relu_tiles<vector_tiles_of<float, 64>>{}, each_of(line_parts), line_parts); });
    expect_refused(errc::shape_mismatch, {"all tiles", "[20, 20]", "[20, 21]"},
                   [&] { launch_on(home, kernel{}, each_of(other), a, b, c); });
    expect_refused(errc::shape_mismatch, {"all tiles", "[3, 3] tiles"},
                   [&] { launch_on(home, kernel{}, each_of(blocks), a, b, parts); });
    expect_refused(errc::shape_mismatch, {"[20, 20] in 3 x 2 tiles", "[20, 40] in 3 x 3"},
                   [&] { launch_on(home, add_and_double{}, each_of(c), a, c, numbers); });
    expect_refused(errc::shape_mismatch, {"[20, 20] in 2 x 1 tiles", "[400] in 1 x 25"},
                   [&] { launch_on(home, row_totals{}, each_of(c), c, line, 1.f); });
    const auto moved = std::move(b);
    expect_refused(errc::invalid_argument, {"gemm_tiles"}, [&] { launch_on(home, kernel{}, each_of(c), a, b, c); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::tile_launch_tests
