// SPDX-License-Identifier: Apache-2.0
// Launches whose blocks work together, in clusters or all of them: the same on every backend.
#include <numeric>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "support/group_kernels.hpp"

namespace sluice::conformance::group_kernel_tests {
namespace {

using namespace test_support;

CONFORMANCE_SUITE(group_kernels);

std::vector<float> counting_floats(std::size_t count) {
    std::vector<float> all(count);
    std::iota(all.begin(), all.end(), 0.0f);
    return all;
}

auto sums_of_the_others(std::vector<float> x, unsigned count, unsigned threads) {
    return zip(upload(std::move(x)), zeros<float>({count}), zeros<float>({count}))
        .and_then([=](auto in, auto sums, auto out) {
            return launch(sum_of_the_others{}, blocks(count, threads), shared_memory<float>(threads), std::move(in),
                          std::move(sums), std::move(out));
        })
        .and_then([](auto, auto out) { return download(std::move(out)); });
}
std::vector<float> expected_sums_of_the_others(const std::vector<float>& x, unsigned count, unsigned threads) {
    std::vector<float> own(count);
    for (std::size_t i = 0; i < x.size(); ++i) own[i / threads % count] += x[i];
    const float all = std::accumulate(own.begin(), own.end(), 0.0f);
    for (float& each : own) each = all - each;
    return own;
}

auto sums_of_clusters(std::vector<float> x, unsigned count, unsigned threads, unsigned cluster) {
    return zip(upload(std::move(x)), zeros<float>({count})).and_then([=](auto in, auto out) {
        return launch(cluster_sums{}, blocks(count, threads).in_clusters_of(cluster), shared_memory<float>(threads),
                      std::move(in), std::move(out));
    });
}
std::vector<float> expected_sums_of_clusters(const std::vector<float>& x, unsigned count, unsigned threads,
                                             unsigned cluster) {
    std::vector<float> sums(count);
    for (unsigned block = 0; block < count; ++block) {
        const std::size_t first = std::size_t{block / cluster} * cluster * threads;
        for (std::size_t i = first; i < std::min(x.size(), first + std::size_t{cluster} * threads); ++i)
            sums[block] += x[i];
    }
    return sums;
}

// One round: each block adds one to its number; block 0 says whether the sum is below the limit.
struct counts_together {
    SLUICE_KERNEL void operator()(const thread_grid& grid, grid_memory<int> numbers, int limit,
                                  loop_condition again) const {
        const block_part<int> all = grid.part(numbers);
        grid.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() == 0) ++all[block.index()];
            });
        });
        grid.sync();
        grid.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (block.index() != 0 || t.index() != 0) return;
                int sum = 0;
                for (std::size_t i = 0; i < all.size(); ++i) sum += all[i];
                again.set(sum < limit);
            });
        });
    }
};

bool has_clusters(const device& on) { return on.properties().max_blocks_per_cluster > 1; }
#define NEEDS_CLUSTERS() \
    if (!has_clusters(on)) GTEST_SKIP() << on.name() << " has no clusters"

}  // namespace

TEST_P(group_kernels, all_blocks_wait_for_each_other) {
    round_robin pool(on, 2);
    for (const unsigned count : {1u, 2u, 17u, 64u}) {
        for (const unsigned threads : {1u, 32u, 256u}) {
            const std::vector<float> x = counting_floats(1500);
            EXPECT_EQ(sync(sums_of_the_others(x, count, threads), pool), expected_sums_of_the_others(x, count, threads))
                << count << " by " << threads;
        }
    }
}

TEST_P(group_kernels, blocks_wait_as_often_as_they_like) {
    single_stream pool(on);
    const auto after = [&](unsigned count, unsigned rounds) {
        return sync(zeros<unsigned>({std::size_t{2} * count})
                        .and_then([=](auto numbers) {
                            return launch(passed_on{}, blocks(count, 32), std::move(numbers), rounds);
                        })
                        .and_then(download),
                    pool);
    };
    std::vector<unsigned> expected(100, 49);
    std::fill_n(expected.begin(), 50, 50);
    EXPECT_EQ(after(50, 50), expected);
    EXPECT_EQ(after(1, 3), (std::vector<unsigned>{2, 3}));
    EXPECT_EQ(after(3, 0), std::vector<unsigned>(6, 0));
}

TEST_P(group_kernels, as_many_blocks_as_fit_wait_for_each_other_and_one_more_is_refused) {
    single_stream pool(on);
    for (const std::size_t shared : {std::size_t{64}, std::size_t{10'000}}) {
        const std::size_t most = resident_blocks(on, sum_of_the_others{}, 64, shared_memory<float>(shared));
        EXPECT_GE(most, static_cast<std::size_t>(on.properties().compute_units));
        const auto with = [&](std::size_t count) {
            const auto number = static_cast<unsigned>(count);
            return zip(full<float>({count}, 1), zeros<float>({count}), zeros<float>({count}))
                .and_then([=](auto in, auto sums, auto out) {
                    return launch(sum_of_the_others{}, blocks(number, 64), shared_memory<float>(shared), std::move(in),
                                  std::move(sums), std::move(out));
                })
                .and_then([](auto, auto out) { return download(std::move(out)); });
        };
        const std::vector<float> others = sync(with(most), pool);
        EXPECT_EQ(others.front(), static_cast<float>(most - std::min<std::size_t>(most, 64)));
        EXPECT_EQ(std::accumulate(others.begin(), others.end(), 0.0),
                  static_cast<double>(most) * static_cast<double>(most - 1));
        expect_refused(errc::invalid_argument,
                       {"sum_of_the_others", std::to_string(most + 1) + " blocks",
                        on.name() + " runs at most " + std::to_string(most) + " of them", "64 threads"},
                       [&] { sync(with(most + 1), pool); });
    }
}

TEST_P(group_kernels, the_number_of_resident_blocks_depends_on_threads_and_shared_memory) {
    const auto most = [&](unsigned threads, std::size_t shared) {
        return resident_blocks(on, sum_of_the_others{}, threads, shared_memory<float>(shared));
    };
    EXPECT_GE(most(32, 1), most(1024, 1));
    EXPECT_GT(most(32, 1), most(32, 10'000));
    expect_refused(errc::invalid_argument, {"sum_of_the_others", on.name(), "1024"}, [&] { most(2000, 1); });
    expect_refused(errc::invalid_argument, {"400000 bytes"}, [&] { most(32, 100'000); });
    expect_refused(errc::invalid_argument, {"empty"}, [&] { most(0, 1); });
}

TEST_P(group_kernels, blocks_of_a_cluster_read_each_others_shared_memory) {
    NEEDS_CLUSTERS();
    round_robin pool(on, 2);
    const std::vector<float> x = counting_floats(1000);
    for (const unsigned cluster : {1u, 2u, 3u, 4u, 8u}) {
        for (const unsigned threads : {1u, 32u, 128u}) {
            const unsigned count = 5 * cluster;
            EXPECT_EQ(sync(sums_of_clusters(x, count, threads, cluster).and_then(download), pool),
                      expected_sums_of_clusters(x, count, threads, cluster))
                << "clusters of " << cluster << " blocks of " << threads;
        }
    }
}

TEST_P(group_kernels, blocks_of_a_cluster_write_each_others_shared_memory_from_the_beginning) {
    NEEDS_CLUSTERS();
    single_stream pool(on);
    const block_extent grid{4, 6, 2}, cluster{2, 3, 1};
    const auto told = sync(
        zeros<unsigned>({grid.count() * 4})
            .and_then([=](auto out) {
                return launch(to_the_next{},
                              blocks({grid.x, grid.y, grid.z}, {40}).in_clusters_of({cluster.x, cluster.y, cluster.z}),
                              shared_memory<unsigned>(40), std::move(out));
            })
            .and_then(download),
        pool);
    std::size_t at = 0;
    for (unsigned z = 0; z < grid.z; ++z) {
        for (unsigned y = 0; y < grid.y; ++y) {
            for (unsigned x = 0; x < grid.x; ++x, at += 4) {
                const unsigned rank = x % 2 + 2 * (y % 3), before = (rank + 5) % 6;
                const unsigned sender = (x / 2 * 2 + before % 2) + 4 * ((y / 3 * 3 + before / 2) + 6 * z);
                ASSERT_EQ(told[at], sender * 1000 + sender + 39);
                ASSERT_EQ(told[at + 1], x / 2 + 2 * (y / 3 + 2 * z));
                ASSERT_EQ(told[at + 2], x / 2 + 10 * (y / 3) + 100 * z);
                ASSERT_EQ(told[at + 3], rank);
            }
        }
    }
}

TEST_P(group_kernels, clusters_that_the_device_cannot_take_are_refused) {
    NEEDS_CLUSTERS();
    single_stream pool(on);
    const auto with = [&](const launch_extent& grid, const launch_extent& cluster) {
        return [=, &pool] {
            sluice::sync(zip(zeros<float>({4}), zeros<float>({4})).and_then([=](auto x, auto out) {
                return launch(cluster_sums{}, blocks(grid, {32}).in_clusters_of(cluster), shared_memory<float>(32),
                              std::move(x), std::move(out));
            }),
                         pool);
        };
    };
    expect_refused(errc::invalid_argument, {"cluster_sums", on.name(), "cluster of 4 x 1 x 1", "grid of 6 x 1 x 1"},
                   with({6}, {4}));
    expect_refused(errc::invalid_argument, {"cluster of 1 x 2 x 1", "grid of 4 x 3 x 1"}, with({4, 3}, {1, 2}));
    expect_refused(errc::invalid_argument, {"9 x 1 x 1", "at most 8 blocks"}, with({9}, {9}));
    expect_refused(errc::invalid_argument, {"4 x 4 x 1", "at most 8 blocks"}, with({4, 4}, {4, 4}));
    expect_refused(errc::invalid_argument, {"65536 x 65536 x 1", "at most 8"}, with({65536}, {65536, 65536}));
    expect_refused(errc::invalid_argument, {"2 x 0 x 1", "empty"}, with({4}, {2, 0}));
    expect_refused(errc::invalid_argument, {"grid", "empty"}, with({0}, {4}));
    EXPECT_EQ(sync(sums_of_clusters({1, 2, 3}, 2, 2, 2).and_then(download), pool), (std::vector<float>{6, 6}));
}

TEST_P(group_kernels, a_launch_that_does_not_go_with_the_kernels_index_is_refused) {
    single_stream pool(on);
    const auto grid_with = [&](const launch_blocks& over) {
        return [=, &pool] {
            sluice::sync(
                zeros<unsigned>({8}).and_then([=](auto x) { return launch(passed_on{}, over, std::move(x), 1u); }),
                pool);
        };
    };
    expect_refused(errc::invalid_argument, {"passed_on", "in_clusters_of", "block_cluster"},
                   grid_with(blocks(4, 32).in_clusters_of(2)));
    expect_refused(errc::invalid_argument, {"shared_memory<T>"}, grid_with(blocks(4, 32, 128)));
    EXPECT_NO_THROW(grid_with(blocks(4, 32).cooperatively())());
    expect_refused(errc::invalid_argument, {"cluster_sums", "cooperative", "thread_grid"}, [&] {
        sluice::sync(zip(zeros<float>({4}), zeros<float>({4})).and_then([](auto x, auto out) {
            return launch(cluster_sums{}, blocks(4, 32).cooperatively(), shared_memory<float>(32), std::move(x),
                          std::move(out));
        }),
                     pool);
    });
}

// (On a GPU each thread has its own block, and such kernels happen to work.)
TEST_P(group_kernels, waiting_at_a_wrong_place_is_refused_on_host_threads) {
    if (on.kind() == device_kind::cuda) GTEST_SKIP() << "found on host threads only";
    single_stream pool(on);
    const auto run = [&](auto kernel) {
        return [=, this, &pool] {
            sync(zeros<unsigned>({8})
                     .and_then([=](auto x) { return launch(kernel, blocks(4, 2), std::move(x)); })
                     .and_then(download),
                 pool);
        };
    };
    expect_refused(errc::invalid_argument, {"waits_inside_blocks", on.name(), "sync()", "inside for_each_block"},
                   run(waits_inside_blocks{}));
    expect_refused(errc::invalid_argument, {"waits_inside_blocks_of_a_cluster", on.name(), "sync()"},
                   run(waits_inside_blocks_of_a_cluster{}));
    expect_refused(errc::invalid_argument, {"nests_blocks", "for_each_block()"}, run(nests_blocks{}));
}

TEST_P(group_kernels, a_graph_replays_them_with_other_inputs) {
    NEEDS_CLUSTERS();
    round_robin pool(on, 2);
    const auto both = [](tensor<float> x) {
        return zip(value(std::move(x)), zeros<float>({8}))
            .and_then([](auto in, auto out) {
                return launch(cluster_sums{}, blocks(8, 64).in_clusters_of(4), shared_memory<float>(64), std::move(in),
                              std::move(out));
            })
            .and_then([](auto sums) { return zip(value(std::move(sums)), zeros<float>({4}), zeros<float>({4})); })
            .and_then([](auto in, auto sums, auto out) {
                return launch(sum_of_the_others{}, blocks(4, 2), shared_memory<float>(2), std::move(in),
                              std::move(sums), std::move(out));
            })
            .and_then([](auto, auto out) { return download(std::move(out)); });
    };
    const auto fast = compile(on, both, host_input<float>({512}));
    const auto by_address = compile(on, both, device_input<float>({512}));
    for (int i = 0; i < 10; ++i) {
        const std::vector<float> x(512, static_cast<float>(i)), expected(4, static_cast<float>(i) * 256 * 6);
        EXPECT_EQ(sluice::sync(fast(x), pool), expected);
        EXPECT_EQ(sluice::sync(upload(x).and_then([&](auto in) { return by_address(std::move(in)); }), pool), expected);
    }
}

TEST_P(group_kernels, a_loop_repeats_a_cooperative_launch) {
    round_robin pool(on, 2);
    const auto loop = [](tensor<int> x) {
        return do_while(
            [](loop_flag again, tensor<int> now) {
                return launch(counts_together{}, blocks(8, 32), std::move(now), 50, again);
            },
            std::move(x));
    };
    const auto fast =
        compile(on, [loop](tensor<int> x) { return loop(std::move(x)).and_then(download); }, host_input<int>({8}));
    for (const int begin : {0, 1, 100}) {
        const std::vector<int> x(8, begin), expected(8, begin < 7 ? 7 : begin + 1);
        EXPECT_EQ(sluice::sync(fast(x), pool), expected);
        EXPECT_EQ(sync(upload(x).and_then(loop).and_then(download), pool), expected);
    }
}

TEST_P(group_kernels, an_update_keeps_the_cluster_and_another_cluster_instantiates_again) {
    NEEDS_CLUSTERS();
    single_stream pool(on);
    const auto in_clusters_of = [](unsigned cluster, float plus) {
        return std::function<any_operation<pending<std::vector<float>>>(tensor<float>)>([=](tensor<float> x) {
            return any_operation<pending<std::vector<float>>>(
                zip(value(std::move(x)), full<float>({8}, plus))
                    .and_then([=](auto in, auto out) {
                        return launch(cluster_sums{}, blocks(8, 32).in_clusters_of(cluster), shared_memory<float>(32),
                                      std::move(in), std::move(out));
                    })
                    .and_then(download));
        });
    };
    const auto fast = compile(on, in_clusters_of(4, 0), host_input<float>({256}));
    const std::vector<float> x = counting_floats(256);
    const auto expect_clusters_of = [&](unsigned cluster) {
        EXPECT_EQ(sluice::sync(fast(x), pool), expected_sums_of_clusters(x, 8, 32, cluster));
        EXPECT_EQ(sluice::sync(fast(x), pool), expected_sums_of_clusters(x, 8, 32, cluster));
    };
    expect_clusters_of(4);
    EXPECT_EQ(fast.update(in_clusters_of(4, 1)), graph_change::parameters);
    expect_clusters_of(4);
    EXPECT_EQ(fast.update(in_clusters_of(2, 1)), graph_change::instantiated);
    if (on.kind() == device_kind::cuda) {
        EXPECT_NE(fast.why_instantiated().find("clusters of 2 x 1 x 1"), std::string::npos) << fast.why_instantiated();
        EXPECT_NE(fast.why_instantiated().find("clusters of 4 x 1 x 1"), std::string::npos) << fast.why_instantiated();
    } else {  // the shared memory of a cluster is a temporary there, so that differs first
        EXPECT_EQ(fast.why_instantiated(), "its temporaries have other sizes");
    }
    expect_clusters_of(2);
    EXPECT_EQ(fast.update(in_clusters_of(1, 1)), graph_change::instantiated);
    expect_clusters_of(1);
    EXPECT_EQ(fast.update(in_clusters_of(8, 1)), graph_change::instantiated);
    expect_clusters_of(8);
}

TEST_P(group_kernels, an_update_changes_the_grid_of_a_cooperative_launch) {
    single_stream pool(on);
    const auto with = [](unsigned count) {
        return std::function<any_operation<pending<std::vector<float>>>(tensor<float>)>([=](tensor<float> x) {
            return any_operation<pending<std::vector<float>>>(
                zip(value(std::move(x)), zeros<float>({16}), zeros<float>({16}))
                    .and_then([=](auto in, auto sums, auto out) {
                        return launch(sum_of_the_others{}, blocks(count, 32), shared_memory<float>(32), std::move(in),
                                      std::move(sums), std::move(out));
                    })
                    .and_then([](auto, auto out) { return download(std::move(out)); }));
        });
    };
    const auto fast = compile(on, with(16), host_input<float>({512}));
    const std::vector<float> x = counting_floats(512);
    EXPECT_EQ(sluice::sync(fast(x), pool), expected_sums_of_the_others(x, 16, 32));
    EXPECT_NE(fast.update(with(1)), graph_change::none);
    EXPECT_EQ(sluice::sync(fast(x), pool), std::vector<float>(16, 0));
    EXPECT_NE(fast.update(with(16)), graph_change::none);
    EXPECT_EQ(sluice::sync(fast(x), pool), expected_sums_of_the_others(x, 16, 32));
    const auto most = static_cast<unsigned>(resident_blocks(on, sum_of_the_others{}, 32, shared_memory<float>(32)));
    expect_refused(errc::invalid_argument, {"at most " + std::to_string(most)}, [&] { fast.update(with(most + 1)); });
    EXPECT_EQ(sluice::sync(fast(x), pool), expected_sums_of_the_others(x, 16, 32)) << "after a refused update";
}

}  // namespace sluice::conformance::group_kernel_tests
