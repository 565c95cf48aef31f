// SPDX-License-Identifier: Apache-2.0
// Launches over blocks: threads that work together through shared memory, the same on every backend.
#include <numeric>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"

namespace sluice::conformance::block_kernel_tests {
namespace {

CONFORMANCE_SUITE(block_kernels);

std::vector<float> counting_floats(std::size_t count) {
    std::vector<float> all(count);
    std::iota(all.begin(), all.end(), 0.0f);
    return all;
}
unsigned blocks_of(std::size_t count, unsigned threads) {
    return static_cast<unsigned>((count + threads - 1) / threads);
}

// The sum of each block's elements.
struct block_sums {
    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<float> shared, view<const float> x,
                                  disjoint_blocks<float> sums) const {
        const block_part<float> part = block.part(shared);
        block.for_each_thread([&](const block_thread& t) {
            const std::size_t i = t.flat().value();
            part[t.index()] = i < x.size() ? x[i] : 0;
        });
        for (unsigned half = block.threads() / 2; half != 0; half /= 2) {
            block.sync();
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() < half) part[t.index()] += part[t.index() + half];
            });
        }
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() == 0) sums.part(block)[0] = part[0];
        });
    }
};

// out = the transpose of x, by tiles of 16 x 16 in shared memory.
struct transposed_by_tiles {
    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<float> shared, matrix_view<const float> x,
                                  disjoint_matrix<float> out) const {
        const block_part<float> tile = block.part(shared);
        block.for_each_thread([&](const block_thread& t) {
            const std::size_t row = std::size_t{block.position().x} * 16 + t.y();
            const std::size_t column = std::size_t{block.position().y} * 16 + t.x();
            if (row < x.rows() && column < x.columns()) tile[t.y() * 17 + t.x()] = x(row, column);
        });
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            if (float* const element = out.at(t.at())) *element = tile[t.x() * 17 + t.y()];
        });
    }
};

// Each element: the numbers of its block and thread.
struct numbered {
    SLUICE_KERNEL void operator()(const thread_block& block, disjoint_view<unsigned> out) const {
        block.for_each_thread([&](const block_thread& t) {
            if (unsigned* const element = out.at(t.flat()))
                *element = static_cast<unsigned>(block.index()) * 1000000 + block.position().z * 100000 +
                           t.x() * 10000 + t.y() * 1000 + t.z() * 100 + t.index();
        });
    }
};

// Three pieces of shared memory of different types, each filled, then added up.
struct of_three_types {
    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<char> a, shared_memory<double> b,
                                  shared_memory<short> c, disjoint_blocks<double> sums) const {
        block.for_each_thread([&](const block_thread& t) {
            for (std::size_t i = t.index(); i < a.size(); i += block.threads()) block.data(a)[i] = 1;
            for (std::size_t i = t.index(); i < b.size(); i += block.threads()) block.data(b)[i] = 0.5;
            for (std::size_t i = t.index(); i < c.size(); i += block.threads()) block.data(c)[i] = 2;
        });
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() != 0) return;
            double sum = 0;
            for (std::size_t i = 0; i < a.size(); ++i) sum += block.data(a)[i];
            for (std::size_t i = 0; i < b.size(); ++i) sum += block.data(b)[i];
            for (std::size_t i = 0; i < c.size(); ++i) sum += block.data(c)[i];
            for (std::size_t i = 0; i < sums.size_of(block); ++i) sums.of(block)[i] = sum;
        });
    }
};

auto sums_of(std::vector<float> x, unsigned threads) {
    const unsigned count = blocks_of(x.size(), threads);
    return zip(upload(std::move(x)), zeros<float>({count})).and_then([=](auto in, auto out) {
        return launch(block_sums{}, blocks(count, threads), shared_memory<float>(threads), std::move(in),
                      std::move(out));
    });
}

}  // namespace

TEST_P(block_kernels, threads_work_together) {
    round_robin pool(on, 2);
    for (const std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{10'000}}) {
        for (const unsigned threads : {1u, 32u, 256u, 1024u}) {
            const std::vector<float> x = counting_floats(count);
            std::vector<float> expected(blocks_of(count, threads), 0);
            for (std::size_t i = 0; i < count; ++i) expected[i / threads] += x[i];
            EXPECT_EQ(sync(sums_of(x, threads).and_then(download), pool), expected) << count << " by " << threads;
        }
    }
}

TEST_P(block_kernels, tiles_go_through_shared_memory) {
    round_robin pool(on, 2);
    for (const auto& [rows, columns] : {std::pair(16u, 16u), std::pair(1u, 50u), std::pair(33u, 47u)}) {
        const std::vector<float> x = counting_floats(std::size_t{rows} * columns);
        const launch_extent grid{blocks_of(rows, 16), blocks_of(columns, 16)};
        const auto turned = sync(zip(upload(x, {rows, columns}), zeros<float>({columns, rows}))
                                     .and_then([=](auto in, auto out) {
                                         return launch(transposed_by_tiles{}, blocks(grid, {16, 16}),
                                                       shared_memory<float>(16 * 17), std::move(in), std::move(out));
                                     })
                                     .and_then(download),
                                 pool);
        for (unsigned i = 0; i < rows; ++i) {
            for (unsigned j = 0; j < columns; ++j) ASSERT_EQ(turned[j * rows + i], x[i * columns + j]);
        }
    }
}

TEST_P(block_kernels, positions_have_three_dimensions) {
    single_stream pool(on);
    const block_extent grid{2, 3, 2}, block{4, 2, 3};
    const auto all =
        sync(zeros<unsigned>({grid.count() * block.count()})
                 .and_then([](auto out) { return launch(numbered{}, blocks({2, 3, 2}, {4, 2, 3}), std::move(out)); })
                 .and_then(download),
             pool);
    std::size_t at = 0;
    for (unsigned b = 0; b < grid.count(); ++b) {
        for (unsigned i = 0; i < block.count(); ++i, ++at) {
            ASSERT_EQ(all[at], b * 1000000 + b / 6 * 100000 + i % 4 * 10000 + i / 4 % 2 * 1000 + i / 8 * 100 + i);
        }
    }
}

TEST_P(block_kernels, shared_memory_has_several_pieces) {
    single_stream pool(on);
    const auto of = [&](std::size_t a, std::size_t b, std::size_t c) {
        return sync(zeros<double>({6})
                        .and_then([=](auto out) {
                            return launch(of_three_types{}, blocks(4, 64), shared_memory<char>(a),
                                          shared_memory<double>(b), shared_memory<short>(c), std::move(out));
                        })
                        .and_then(download),
                    pool);
    };
    // Six elements for four blocks: two each, and nothing for the last one.
    EXPECT_EQ(of(3, 5, 7), std::vector<double>(6, 3 + 2.5 + 14));
    EXPECT_EQ(of(0, 0, 0), std::vector<double>(6, 0));
    EXPECT_EQ(of(1, 12'000, 1), std::vector<double>(6, 1 + 6'000 + 2)) << "more than 48 KiB";
}

TEST_P(block_kernels, take_all_that_the_properties_of_the_device_say_and_no_more) {
    single_stream pool(on);
    const device_properties& has = on.properties();
    const auto threads = static_cast<unsigned>(has.max_threads_per_block);
    const std::size_t most = has.max_shared_bytes_per_block;
    const auto run = [&](unsigned block, std::size_t shared) {
        return sync(zeros<double>({2})
                        .and_then([=](auto out) {
                            return launch(of_three_types{}, blocks(2, block), shared_memory<char>(shared),
                                          shared_memory<double>(0), shared_memory<short>(0), std::move(out));
                        })
                        .and_then(download),
                    pool);
    };
    EXPECT_EQ(run(threads, most), std::vector<double>(2, static_cast<double>(most)));
    expect_refused(errc::invalid_argument, {on.name(), std::to_string(most)}, [&] { run(threads, most + 1); });
    expect_refused(errc::invalid_argument, {on.name(), std::to_string(threads)}, [&] { run(threads + 1, most); });
}

TEST_P(block_kernels, what_the_device_cannot_take_is_refused) {
    single_stream pool(on);
    const auto with = [&](const launch_extent& grid, const launch_extent& block, std::size_t shared) {
        return [=, &pool] {
            sluice::sync(zip(zeros<float>({4}), zeros<float>({4})).and_then([=](auto x, auto out) {
                return launch(block_sums{}, blocks(grid, block), shared_memory<float>(shared), std::move(x),
                              std::move(out));
            }),
                         pool);
        };
    };
    expect_refused(errc::invalid_argument, {"block_sums", on.name(), "1025 x 1 x 1", "1024"}, with({1}, {1025}, 4));
    expect_refused(errc::invalid_argument, {"64 x 32 x 1", "2048", "1024"}, with({1}, {64, 32}, 4));
    expect_refused(errc::invalid_argument, {"1 x 1 x 65", "64"}, with({1}, {1, 1, 65}, 4));
    expect_refused(errc::invalid_argument, {"1 x 65536 x 1", "65535"}, with({1, 65536}, {32}, 4));
    expect_refused(errc::invalid_argument, {"grid", "empty"}, with({0}, {32}, 4));
    expect_refused(errc::invalid_argument, {"block", "empty"}, with({1}, {32, 0}, 4));
    expect_refused(errc::invalid_argument, {on.name(), "400000 bytes", "shared memory"}, with({1}, {32}, 100'000));
    expect_refused(errc::invalid_argument, {"shared memory"}, with({1}, {32}, ~std::size_t{0}));
    expect_refused(errc::invalid_argument, {"shared_memory<T>"}, [&] {
        sluice::sync(zip(zeros<float>({4}), zeros<float>({4})).and_then([](auto x, auto out) {
            return launch(block_sums{}, blocks(1, 32, 128), shared_memory<float>(32), std::move(x), std::move(out));
        }),
                     pool);
    });
    EXPECT_EQ(sync(sums_of({1, 2, 3}, 4).and_then(download), pool), (std::vector<float>{6}));
}

TEST_P(block_kernels, a_graph_replays_them_with_other_inputs) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<float> x) {
            return zip(value(std::move(x)), zeros<float>({4}))
                .and_then([](auto in, auto out) {
                    return launch(block_sums{}, blocks(4, 64), shared_memory<float>(64), std::move(in), std::move(out));
                })
                .and_then(download);
        },
        host_input<float>({256}));
    for (int i = 0; i < 10; ++i) {
        const auto value = static_cast<float>(i);
        EXPECT_EQ(sluice::sync(fast(std::vector<float>(256, value)), pool), std::vector<float>(4, 64 * value));
    }
}

}  // namespace sluice::conformance::block_kernel_tests
