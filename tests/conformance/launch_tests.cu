// SPDX-License-Identifier: Apache-2.0
// A kernel runs once for each index of its launch, and receives the arguments of the launch.
#include <algorithm>
#include <limits>
#include <numeric>

#include "conformance/backend.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::launch_tests {
namespace {

CONFORMANCE_SUITE(launches);

struct count_visits {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> visits) const {
        if (int* const e = visits.at(at)) *e += 1;
    }
};

struct number_elements {
    SLUICE_KERNEL void operator()(index_2d at, disjoint_matrix<unsigned> x) const {
        if (unsigned* const e = x.at(at)) *e += static_cast<unsigned>(at.row() * 1000 + at.column());
    }
};

struct number_tiles {
    SLUICE_KERNEL void operator()(tile_index at, unsigned tiles_across, disjoint_tiles<unsigned> x) const {
        const auto tile = x.at(at);
        for (std::size_t r = 0; r < tile.rows(); ++r) {
            for (std::size_t c = 0; c < tile.columns(); ++c) {
                tile(r, c) += static_cast<unsigned>(at.row() * tiles_across + at.column());
            }
        }
    }
};

// Sets each element of a tile to its position in the whole matrix.
struct place_elements {
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<unsigned> x) const {
        const auto tile = x.at(at);
        for (std::size_t r = 0; r < tile.rows(); ++r) {
            for (std::size_t c = 0; c < tile.columns(); ++c) {
                tile(r, c) = static_cast<unsigned>((tile.first_row() + r) * 1000 + tile.first_column() + c);
            }
        }
    }
};

struct sum_and_difference {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> sum, view<const int> a,
                                  disjoint_view<double> difference, view<const int> b) const {
        if (int* const e = sum.at(at)) *e = a[at.value()] + b[at.value()];
        if (double* const e = difference.at(at)) *e = a[at.value()] - b[at.value()];
    }
};

struct axpy {
    float a;  // a kernel object may have state
    SLUICE_KERNEL void operator()(index_1d at, double factor, view<const float> x, disjoint_view<float> y) const {
        if (float* const e = y.at(at)) *e += a * static_cast<float>(factor) * x[at.value()];
    }
};

struct row_sums {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const unsigned> x, disjoint_view<unsigned> sums) const {
        unsigned* const e = sums.at(at);
        if (e == nullptr) return;
        *e = 0;
        for (std::size_t c = 0; c < x.columns(); ++c) *e += x(at.value(), c);
    }
};

// Lets the next kernel start, and writes late.
struct write_late {
    unsigned rounds;
    SLUICE_KERNEL void operator()(index_1d at, unsigned value, disjoint_view<unsigned> x) const {
        dependency_trigger();
        unsigned state = rounds | 1;  // the compiler cannot remove this delay
        for (unsigned i = 0; i < rounds; ++i) state = state * 1664525u + 1013904223u + (state >> 16);
        if (unsigned* const e = x.at(at)) *e = value + (state == 0xdecafbad ? 1 : 0);
    }
};

// Starts early and touches nothing of the kernel before it, so its author has left out dependency_wait.
struct without_wait {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const e = x.at(at)) *e += 1;
    }
};

struct copy_elements {
    SLUICE_KERNEL void operator()(index_1d at, view<const unsigned> from, disjoint_view<unsigned> to) const {
        if (unsigned* const e = to.at(at)) *e = from[at.value()];
    }
};

// A class with members, a loop over an array of its own, and a function template.
struct polynomial {
    unsigned coefficients[4];

    template <typename T>
    SLUICE_KERNEL T of(T x) const {
        T sum = 0;
        for (const unsigned each : coefficients) sum = sum * x + each;
        return sum;
    }
};

struct sums_of_a_polynomial {
    polynomial what;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        unsigned* const e = x.at(at);
        if (e == nullptr) return;
        const auto added = [&](unsigned sum, std::size_t i) { return sum + what.of(static_cast<unsigned>(i)); };
        unsigned sum = 0;
        for (std::size_t i = 0; i <= at.value(); ++i) {
            if (i % 3 == 1) continue;
            sum = added(sum, i);
        }
        *e = sum;
    }
};

template <typename Value>
std::vector<unsigned> table(std::size_t rows, std::size_t columns, Value value) {
    std::vector<unsigned> made;
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) made.push_back(static_cast<unsigned>(value(r, c)));
    }
    return made;
}

}  // namespace

TEST_P(launches, each_element_is_visited_once) {
    round_robin pool(on, 2);
    for (const std::size_t size : {1, 2, 31, 255, 256, 257, 1000, 100'003}) {
        auto operation = zeros<int>({size}).and_then(
            [](auto visits) { return launch(count_visits{}, each_of(visits), std::move(visits)); });
        EXPECT_EQ(sync(std::move(operation).and_then(download), pool), std::vector<int>(size, 1));
    }
}

TEST_P(launches, each_element_of_a_tensor_of_any_rank_is_visited_once_by_a_flat_kernel) {
    single_stream pool(on);
    for (const shape& of : {shape{}, shape{3, 5}, shape{2, 3, 4}, shape{2, 1, 3, 7}}) {
        auto visits = sync(zeros<int>(of), pool);
        launch_on(pool.next(), count_visits{}, each_of(visits), visits);
        EXPECT_EQ(contents(std::move(visits), pool.next()), std::vector<int>(of.size(), 1)) << to_string(of);
    }
}

// The third kernel comes after the second in the stream, and so must come after the first, which the second has not
// waited for: a wait is added at the second's end.
TEST_P(launches, a_kernel_that_starts_early_and_does_not_wait_ends_after_the_one_before_it) {
    single_stream pool(on);
    const stream home = pool.next();
    auto x = sync(zeros<unsigned>({1000}), pool), y = sync(zeros<unsigned>({1000}), pool);
    for (unsigned round = 1; round <= 20; ++round) {
        auto copied = submit_to(home, zeros<unsigned>({1000}));
        launch_on(home, write_late{slow()}, each_of(x), round, x);
        launch_on(home, without_wait{}, each_of(y).early_start(), y);
        launch_on(home, copy_elements{}, each_of(copied), x, copied);
        EXPECT_EQ(contents(std::move(copied), home), std::vector<unsigned>(1000, round));
    }
    EXPECT_EQ(contents(std::move(y), home), std::vector<unsigned>(1000, 20));
}

TEST_P(launches, each_element_of_a_matrix_knows_its_row_and_column) {
    round_robin pool(on, 2);
    for (const shape& of : {shape{1, 1}, shape{7, 33}, shape{8, 32}, shape{9, 31}, shape{300, 1}, shape{1, 300}}) {
        auto x = sync(zeros<unsigned>(of), pool);
        launch_on(pool.next(), number_elements{}, each_of(x), x);
        const auto expected = table(of[0], of[1], [](auto r, auto c) { return r * 1000 + c; });
        EXPECT_EQ(contents(std::move(x), pool.next()), expected) << to_string(of);
    }
}

TEST_P(launches, a_matrix_may_have_more_rows_than_a_grid_has_blocks) {
    single_stream pool(on);
    constexpr std::size_t rows = 65535 * 8 + 4321;  // 65,535 blocks of eight rows are a GPU's limit
    auto x = sync(zeros<unsigned>({rows, 2}), pool);
    launch_on(pool.next(), number_elements{}, each_of(x), x);
    EXPECT_TRUE(contents(std::move(x), pool.next()) == table(rows, 2, [](auto r, auto c) { return r * 1000 + c; }));
}

TEST_P(launches, indices_outside_a_view_get_a_null_pointer) {
    single_stream pool(on);
    auto visits = sync(zeros<int>({100}), pool);
    auto x = sync(zeros<unsigned>({5, 7}), pool);
    launch_on(pool.next(), count_visits{}, each_of(shape{10'000}), visits);
    launch_on(pool.next(), number_elements{}, each_of(shape{50, 70}), x);
    EXPECT_EQ(contents(std::move(visits), pool.next()), std::vector<int>(100, 1));
    EXPECT_EQ(contents(std::move(x), pool.next()), table(5, 7, [](auto r, auto c) { return r * 1000 + c; }));
}

TEST_P(launches, elements_outside_the_launch_are_unchanged) {
    single_stream pool(on);
    auto x = sync(full<unsigned>({4, 3}, 9), pool);
    launch_on(pool.next(), number_elements{}, each_of(shape{2, 2}), x);
    EXPECT_EQ(contents(std::move(x), pool.next()), (std::vector<unsigned>{9, 10, 9, 1009, 1010, 9, 9, 9, 9, 9, 9, 9}));
}

TEST_P(launches, tiles_cover_a_matrix_with_ragged_edges) {
    round_robin pool(on, 2);
    for (const auto& [of, tile] : {std::pair{shape{8, 8}, shape{4, 2}},
                                   {shape{7, 5}, shape{3, 2}},
                                   {shape{1, 9}, shape{4, 4}},
                                   {shape{100, 33}, shape{7, 40}},
                                   {shape{3, 3}, shape{1, 1}}}) {
        auto numbered = sync(zeros<unsigned>(of), pool).partition(tile);
        const std::size_t down = (of[0] + tile[0] - 1) / tile[0], across = (of[1] + tile[1] - 1) / tile[1];
        EXPECT_EQ(numbered.tile_rows(), down);
        EXPECT_EQ(numbered.tile_columns(), across);
        auto operation = launch(number_tiles{}, each_of(numbered), static_cast<unsigned>(across), std::move(numbered));
        const auto expected =
            table(of[0], of[1], [&, t = tile](auto r, auto c) { return r / t[0] * across + c / t[1]; });
        EXPECT_EQ(contents(sync(std::move(operation), pool).unpartition(), pool.next()), expected) << to_string(of);
    }
}

TEST_P(launches, a_tile_knows_its_position) {
    single_stream pool(on);
    auto tiles = sync(zeros<unsigned>({11, 13}), pool).partition({4, 5});
    launch_on(pool.next(), place_elements{}, each_of(tiles), tiles);
    EXPECT_EQ(contents(std::move(tiles).unpartition(), pool.next()),
              table(11, 13, [](auto r, auto c) { return r * 1000 + c; }));
}

TEST_P(launches, a_tile_may_be_larger_than_the_matrix) {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    single_stream pool(on);
    for (const shape& tile : {shape{most - 1, 1}, shape{1, most - 1}}) {
        auto tiles = sync(zeros<unsigned>({3, 2}), pool).partition(tile);
        EXPECT_EQ(tiles.tile_rows(), tile[0] == 1 ? 3u : 1u);
        EXPECT_EQ(tiles.tile_columns(), tile[1] == 1 ? 2u : 1u);
        launch_on(pool.next(), place_elements{}, each_of(tiles), tiles);
        EXPECT_EQ(contents(std::move(tiles).unpartition(), pool.next()),
                  table(3, 2, [](auto r, auto c) { return r * 1000 + c; }));
    }
}

TEST_P(launches, tiles_of_a_vector_are_one_row) {
    single_stream pool(on);
    auto tiles = sync(zeros<unsigned>({11}), pool).partition({4});
    EXPECT_EQ(tiles.tile_rows(), 1u);
    EXPECT_EQ(tiles.tile_columns(), 3u);
    launch_on(pool.next(), place_elements{}, each_of(tiles), tiles);
    EXPECT_EQ(contents(std::move(tiles).unpartition(), pool.next()), counting<unsigned>(11));
}

TEST_P(launches, written_tensors_are_returned_in_the_order_of_the_arguments) {
    round_robin pool(on, 2);
    auto a = sync(upload(std::vector<int>{5, 6, 7}), pool);
    auto b = sync(upload(std::vector<int>{1, 2, 4}), pool);
    auto sum = sync(uninitialized<int>({3}), pool);
    const int* const address = sum.device_data();
    auto operation = launch(sum_and_difference{}, each_of(sum), std::move(sum), std::move(a),
                            sync(uninitialized<double>({3}), pool), std::move(b));
    auto [total, difference] = sync(std::move(operation), pool);
    EXPECT_EQ(total.device_data(), address);
    EXPECT_EQ(contents(std::move(total), pool.next()), (std::vector<int>{6, 8, 11}));
    EXPECT_EQ(contents(std::move(difference), pool.next()), (std::vector<double>{4, 4, 3}));
}

TEST_P(launches, tensors_that_are_only_read_are_released_after_the_launch) {
    single_stream pool(on);
    const std::size_t before = bytes_in_use();
    auto operation = zip(upload(std::vector<float>(100, 2)), zeros<float>({100})).and_then([](auto x, auto y) {
        const auto all = each_of(y);
        return launch(axpy{3}, all, 1, std::move(x), std::move(y));
    });
    auto y = sync(std::move(operation), pool);
    EXPECT_EQ(bytes_in_use(), before + on.device_pool().usage().in_use_bytes);
    EXPECT_EQ(on.device_pool().usage().in_use_bytes, y.memory()->capacity_bytes());
    EXPECT_EQ(contents(std::move(y), pool.next()), std::vector<float>(100, 6));
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(launches, values_are_converted_to_the_parameters_type_and_kernels_keep_their_state) {
    single_stream pool(on);
    auto x = sync(share(upload(std::vector<float>{1, 2, 3})), pool);
    auto y = sync(upload(std::vector<float>{10, 20, 30}), pool);
    const short two = 2;
    auto operation = launch(axpy{0.5f}, each_of(y), two, x, std::move(y));
    EXPECT_EQ(sync(std::move(operation).and_then(download), pool), (std::vector<float>{11, 22, 33}));
}

TEST_P(launches, kernels_have_loops_members_templates_and_lambdas) {
    single_stream pool(on);
    const polynomial what{{2, 0, 7, 1}};
    auto x = sync(zeros<unsigned>({100}), pool);
    launch_on(pool.next(), sums_of_a_polynomial{what}, each_of(x), x);
    unsigned sum = 0;
    std::vector<unsigned> expected;
    for (unsigned i = 0; i < 100; ++i) {
        if (i % 3 != 1) sum += 2 * i * i * i + 7 * i + 1;
        expected.push_back(sum);
    }
    EXPECT_EQ(contents(std::move(x), pool.next()), expected);
}

TEST_P(launches, shared_tensors_and_partitions_can_be_read) {
    round_robin pool(on, 2);
    const auto twelve = counting<unsigned>(12);
    const std::vector<unsigned> expected{0 + 1 + 2 + 3, 4 + 5 + 6 + 7, 8 + 9 + 10 + 11};
    auto shared_sums = share(upload(twelve, {3, 4})).and_then([](auto x) {
        return zeros<unsigned>({3}).and_then(
            [x](auto sums) { return launch(row_sums{}, each_of(sums), x, std::move(sums)); });
    });
    EXPECT_EQ(sluice::sync(std::move(shared_sums).and_then(download), pool), expected);
    auto tiles = sync(upload(twelve, {3, 4}), pool).partition({2, 2});
    auto sums = sync(zeros<unsigned>({3}), pool);
    auto tiled_sums = launch(row_sums{}, each_of(sums), std::move(tiles), std::move(sums));
    EXPECT_EQ(sync(std::move(tiled_sums).and_then(download), pool), expected);
}

TEST_P(launches, a_shared_tensor_gives_the_launch_its_extent) {
    single_stream pool(on);
    auto x = sync(share(full<float>({50}, 1)), pool);
    auto y = sync(zeros<float>({50}), pool);
    launch_on(pool.next(), axpy{1}, each_of(x), 1, x, y);
    EXPECT_EQ(contents(std::move(y), pool.next()), std::vector<float>(50, 1));
}

TEST_P(launches, a_launch_over_nothing_submits_nothing) {
    single_stream pool(on);
    stream home = pool.next();
    auto nothing = sync(zeros<int>({0}), pool);
    auto flat = sync(zeros<unsigned>({4, 0}), pool);
    const ticket before = home.issued();
    launch_on(home, count_visits{}, each_of(nothing), nothing);
    launch_on(home, number_elements{}, each_of(flat), flat);
    auto tiles = std::move(flat).partition({2, 2});
    EXPECT_EQ(tiles.tile_columns(), 0u);
    launch_on(home, place_elements{}, each_of(tiles), tiles);
    EXPECT_EQ(home.issued(), before);
    EXPECT_EQ(sync(launch(count_visits{}, each_of(nothing), std::move(nothing)), pool).size(), 0u);
}

TEST_P(launches, launches_on_one_stream_run_in_order) {
    single_stream pool(on);
    auto visits = sync(zeros<int>({1000}), pool);
    for (int i = 0; i < 500; ++i) launch_on(pool.next(), count_visits{}, each_of(visits), visits);
    EXPECT_EQ(contents(std::move(visits), pool.next()), std::vector<int>(1000, 500));
}

}  // namespace sluice::conformance::launch_tests
