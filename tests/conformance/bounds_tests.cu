// SPDX-License-Identifier: Apache-2.0
// Kernels that check their bounds (SLUICE_CHECK_BOUNDS is 1): an access out of range fails the command on host threads.
// (On a GPU it ends the device: tests/faults.)
#undef SLUICE_CHECK_BOUNDS
#define SLUICE_CHECK_BOUNDS 1
#include <string>
#include <type_traits>

#include "conformance/backend.hpp"
#include "support/bounds_kernels.hpp"

namespace sluice::conformance::bounds_tests {
namespace {

using namespace test_support;

// The same sizes as without checks (bounds_off_tests.cu).
static_assert(sizeof(view<const float>) == 2 * sizeof(void*) && sizeof(matrix_view<const float>) == 3 * sizeof(void*));
static_assert(sizeof(tile_view<float>) == 6 * sizeof(void*) && sizeof(disjoint_tiles<float>) == 5 * sizeof(void*));
static_assert(sizeof(block_part<float>) == 2 * sizeof(void*) && sizeof(disjoint_blocks<float>) == 2 * sizeof(void*));
static_assert(sizeof(shared_memory<float>) == 2 * sizeof(void*));
static_assert(sizeof(tiles_of<float, 4, 4>) == 3 * sizeof(void*));
#if !defined(__CUDA_ARCH__)  // there it is spread over threads
static_assert(sizeof(tile<float, 4, 4>) == 64);
#endif
// What converts to a number is an index.
static_assert(requires(view<const float> x, std::integral_constant<int, 3> three) { x[three]; });

class bounds : public conformance_test {
protected:
    void SetUp() override {
        if (on.kind() == device_kind::cuda) GTEST_SKIP() << "an access out of range ends the GPU";
    }

    // The kernel's error, which names the access, the kernel, the device, and the line of the launch.
    template <typename Kernel, typename Function>
    void expect_out_of_range(unsigned launched_at, const std::string& access, Function&& run) {
        const std::string name(detail::type_name<Kernel>());
        try {
            run();
            ADD_FAILURE() << name << ": nothing was thrown";
        } catch (const error& found) {
            const std::string what = found.what();
            EXPECT_EQ(found.code(), errc::out_of_range) << what;
            EXPECT_EQ(found.operation(), name) << what;
            EXPECT_EQ(found.device(), on.name()) << what;
            EXPECT_EQ(found.location().line(), launched_at) << what;
            EXPECT_NE(what.find(access), what.npos) << what;
            EXPECT_NE(what.find("bounds_kernels.hpp:" + std::to_string(Kernel::line) + ")"), what.npos) << what;
            EXPECT_NE(what.find("bounds_tests.cu:" + std::to_string(launched_at)), what.npos) << what;
        }
    }
};
INSTANTIATE_TEST_SUITE_P(, bounds, testing::ValuesIn(enrolled_backends()), backend_name);

// The same operation with ten numbers, or with a matrix of 4 rows and 3 columns.
constexpr unsigned line_of_elementwise = __LINE__ + 4;
template <typename Kernel>
auto elementwise(const shape& of) {
    return zip(full<float>(of, 7), zeros<float>(of)).and_then([](auto x, auto out) {
        auto range = each_of(out);
        return launch(Kernel{}, range, std::move(x), std::move(out));
    });
}

constexpr unsigned line_of_tiles = __LINE__ + 6;
template <typename Kernel>
auto over_tiles() {
    return zeros<float>({4, 4})
        .transform([](auto whole) { return std::move(whole).partition({2, 3}); })
        .and_then([](auto tiles) {
            auto range = each_of(tiles);
            return launch(Kernel{}, range, std::move(tiles));
        })
        .transform([](auto tiles) { return std::move(tiles).unpartition(); });
}

constexpr unsigned line_of_blocks = __LINE__ + 4;
template <typename Kernel>
auto over_blocks(unsigned cluster = 1) {
    return zeros<float>({64}).and_then([=](auto out) {
        auto range = blocks(2, 32).in_clusters_of(cluster);
        return launch(Kernel{}, range, shared_memory<float>(32), std::move(out));
    });
}

}  // namespace

TEST_P(bounds, a_view_says_the_element_and_its_size) {
    round_robin pool(on, 2);
    expect_out_of_range<reads_beyond_a_view>(
        line_of_elementwise, "element 9 of a view is out of range: its size is 9",
        [&] { sync(elementwise<reads_beyond_a_view>({10}).and_then(download), pool); });
}

TEST_P(bounds, a_negative_index_is_shown_as_it_was) {
    round_robin pool(on, 2);
    expect_out_of_range<reads_below_a_view>(
        line_of_elementwise, "element -1 of a view is out of range: its size is 10",
        [&] { sync(elementwise<reads_below_a_view>({10}).and_then(download), pool); });
}

TEST_P(bounds, matrices_say_the_row_or_the_column) {
    round_robin pool(on, 2);
    expect_out_of_range<reads_beyond_the_rows>(
        line_of_elementwise, "row 3 of a matrix_view is out of range: its size is 3",
        [&] { sync(elementwise<reads_beyond_the_rows>({4, 3}).and_then(download), pool); });
    expect_out_of_range<reads_beyond_the_columns>(
        line_of_elementwise, "column 2 of a matrix_view is out of range: its size is 2",
        [&] { sync(elementwise<reads_beyond_the_columns>({4, 3}).and_then(download), pool); });
}

TEST_P(bounds, tiles_say_the_row_or_the_column) {
    round_robin pool(on, 2);
    expect_out_of_range<writes_beyond_the_rows_of_a_tile>(
        line_of_tiles, "row 2 of a tile_view is out of range: its size is 2",
        [&] { sync(over_tiles<writes_beyond_the_rows_of_a_tile>().and_then(download), pool); });
    expect_out_of_range<writes_beyond_the_columns_of_a_tile>(
        line_of_tiles, "column 3 of a tile_view is out of range: its size is 3",
        [&] { sync(over_tiles<writes_beyond_the_columns_of_a_tile>().and_then(download), pool); });
}

TEST_P(bounds, shared_memory_and_the_elements_of_a_block_say_the_element) {
    round_robin pool(on, 2);
    const std::string access = "element 32 of a block_part is out of range: its size is 32";
    expect_out_of_range<writes_beyond_shared_memory>(
        line_of_blocks, access, [&] { sync(over_blocks<writes_beyond_shared_memory>().and_then(download), pool); });
    expect_out_of_range<writes_beyond_a_part>(
        line_of_blocks, access, [&] { sync(over_blocks<writes_beyond_a_part>().and_then(download), pool); });
}

TEST_P(bounds, clusters_say_the_block_and_grids_the_element) {
    round_robin pool(on, 2);
    expect_out_of_range<reaches_beyond_a_cluster>(
        line_of_blocks, "block 2 of a block_cluster is out of range: its size is 2",
        [&] { sync(over_blocks<reaches_beyond_a_cluster>(2).and_then(download), pool); });
    expect_out_of_range<writes_beyond_a_grid_memory>(
        line_of_blocks, "element 64 of a block_part is out of range: its size is 64",
        [&] { sync(over_blocks<writes_beyond_a_grid_memory>().and_then(download), pool); });
}

TEST_P(bounds, tile_kernels_say_the_tile_or_the_number) {
    round_robin pool(on, 2);
    const auto run = [&]<typename Kernel>(std::type_identity<Kernel>, unsigned& line) {
        tensor<float> x = sluice::sync(zeros<float>({8, 4}), pool), out = sluice::sync(zeros<float>({8, 4}), pool);
        const Kernel kernel{{x.device_data(), 8, 4}, {out.device_data(), 8, 4}};
        const memory_access accesses[] = {{x.memory(), access_mode::read}, {out.memory(), access_mode::write}};
        const command_info info{detail::type_name<Kernel>(), accesses, source_location::current()};
        line = info.location.line();
        launch_tiles(pool.next(), info, kernel.out, kernel);
        sluice::sync(download(std::move(out)), pool);
    };
    unsigned line = 0;
    constexpr unsigned here = __LINE__ - 6;
    expect_out_of_range<loads_beyond_a_matrix>(here, "row of tiles 2 of a tiles_of is out of range: its size is 2",
                                               [&] { run(std::type_identity<loads_beyond_a_matrix>(), line); });
    EXPECT_EQ(line, here);
    expect_out_of_range<reads_beyond_a_tile>(here,
                                             "number 16 of a thread's share of a tile is out of range: its size is 16",
                                             [&] { run(std::type_identity<reads_beyond_a_tile>(), line); });
}

TEST_P(bounds, batches_say_the_matrix) {
    round_robin pool(on, 2);
    constexpr unsigned here = __LINE__ + 2;
    const auto run = [&] {
        auto broken = launch(loads_beyond_a_batch{}, each_written(), zeros<float>({2, 4, 4}), zeros<float>({2, 4, 4}));
        sync(std::move(broken).and_then(download), pool);
    };
    expect_out_of_range<loads_beyond_a_batch>(here, "element 2 of a view is out of range: its size is 2", run);
}

// What depends on the kernel gets its failure; everything else continues.
TEST_P(bounds, only_what_reads_the_results_fails) {
    round_robin pool(on, 2);
    bool ran = false;
    auto broken = elementwise<reads_beyond_a_view>({10}).and_then(download).and_then(
        [&](auto landed) { return host_call([&](std::vector<float>) { ran = true; }, std::move(landed)); });
    auto first = spawn(std::move(broken), pool);
    for (int i = 0; i < 4; ++i) {
        auto other = full<float>({3}, static_cast<float>(i)).and_then(download);
        EXPECT_EQ(sync(std::move(other), pool), std::vector<float>(3, static_cast<float>(i)));
    }
    expect_out_of_range<reads_beyond_a_view>(line_of_elementwise, "element 9 of a view",
                                             [&] { std::move(first).get(); });
    on.synchronize();
    EXPECT_FALSE(ran);
    EXPECT_FALSE(on.is_poisoned());
    auto recovered = elementwise<reads_beyond_a_view>({10}).and_then(download).or_else(
        [](std::exception_ptr) { return value(std::vector<float>{1}); });
    EXPECT_EQ(sluice::sync(std::move(recovered), pool), std::vector<float>{1});
}

TEST_P(bounds, a_graph_can_fail_and_be_launched_again) {
    round_robin pool(on, 2);
    const auto broken = compile(pool, [] {
        return zip(elementwise<reads_beyond_a_view>({10}).and_then(download), ones<float>({2}).and_then(download));
    });
    for (int i = 0; i < 3; ++i) {
        expect_out_of_range<reads_beyond_a_view>(line_of_elementwise, "element 9 of a view",
                                                 [&] { sluice::sync(broken(), pool); });
    }
}

namespace {

struct reads_while_below {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        float* const element = out.at(at);
        if (element == nullptr) return;
        *element += x[static_cast<std::size_t>(*element)];
    }
};
struct is_small {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<int> to) const {
        if (int* const element = to.at(at)) *element = x[0] < 100 ? 1 : 0;
    }
};

}  // namespace

TEST_P(bounds, a_kernel_in_a_loop_fails_in_the_round_that_is_out_of_range) {
    round_robin pool(on, 2);
    const shared_tensor<float> ones = sluice::sync(share(full<float>({3}, 1)), pool);
    const auto below = [](shared_tensor<float> x) {
        return uninitialized<int>({1}).and_then([=](auto to) {
            auto range = each_of(to);
            return launch(is_small{}, range, x, std::move(to));
        });
    };
    unsigned line = 0;
    const auto round = [&line, ones](tensor<float> x) {
        line = __LINE__ + 1;
        auto range = each_of(x);
        return launch(reads_while_below{}, range, ones, std::move(x));
    };
    const auto run = [&] {
        sluice::sync(zeros<float>({1})
                         .and_then([=](auto x) { return repeat_while(below, round, std::move(x)); })
                         .and_then(download),
                     pool);
    };
    try {
        run();
        FAIL() << "nothing was thrown";
    } catch (const error& found) {
        const std::string what = found.what();
        EXPECT_EQ(found.code(), errc::out_of_range) << what;
        EXPECT_EQ(found.operation(), "reads_while_below") << what;
        EXPECT_EQ(found.location().line(), line) << what;
        EXPECT_NE(what.find("element 3 of a view is out of range: its size is 3"), what.npos) << what;
    }
}

}  // namespace sluice::conformance::bounds_tests
