// SPDX-License-Identifier: Apache-2.0
// cuda::std::mdspan over tensors, on the default device: a GPU if there is one.
#include "sluice/mdspan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "sluice/sluice.hpp"

namespace sluice::mdspan_tests {

using conformance::expect_refused;

template <typename T, std::size_t Rank>
using spans = ::cuda::std::mdspan<T, ::cuda::std::dextents<std::size_t, Rank>>;
template <typename T>
using strided = ::cuda::std::mdspan<T, ::cuda::std::dextents<std::size_t, 2>, ::cuda::std::layout_stride>;
using pairs = ::cuda::std::mdspan<const float, ::cuda::std::extents<int, ::cuda::std::dynamic_extent, 2>>;

// The sum over the first dimension.
struct sum_of_planes {
    SLUICE_KERNEL void operator()(index_2d at, spans<const float, 3> x, disjoint_matrix<float> sums) const {
        float* const sum = sums.at(at);
        if (sum == nullptr) return;
        *sum = 0;
        for (std::size_t plane = 0; plane < x.extent(0); ++plane) *sum += x(plane, at.row(), at.column());
    }
};

struct second_of_pairs {
    SLUICE_KERNEL void operator()(index_1d at, pairs x, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = x(static_cast<int>(at.value()), 1);
    }
};

// Writes its tile through an mdspan, and reads a matrix through another.
struct copy_tile {
    SLUICE_KERNEL void operator()(tile_index at, matrix_view<const float> x, disjoint_tiles<float> y) const {
        const tile_view<float> tile = y.at(at);
        const auto to = as_mdspan<strided<float>>(tile);
        const auto from = as_mdspan<spans<const float, 2>>(x);
        for (std::size_t r = 0; r < to.extent(0); ++r) {
            for (std::size_t c = 0; c < to.extent(1); ++c) {
                to(r, c) = from(tile.first_row() + r, tile.first_column() + c);
            }
        }
    }
};

struct reversed {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        const auto from = as_mdspan<spans<const float, 1>>(x);
        if (float* const element = y.at(at)) *element = from(from.extent(0) - 1 - at.value());
    }
};

class mdspans : public testing::Test {
protected:
    std::vector<float> numbers(std::size_t count) {
        std::vector<float> made(count);
        std::iota(made.begin(), made.end(), 0.f);
        return made;
    }

    runtime machine;
    single_stream pool{machine.default_device()};
};

TEST_F(mdspans, a_kernel_reads_a_tensor_of_three_dimensions) {
    auto sums = upload(numbers(24), {2, 3, 4}).and_then([](tensor<float> x) {
        return zeros<float>({3, 4}).and_then([x = std::move(x)](tensor<float> y) mutable {
            return launch(sum_of_planes{}, std::move(x), std::move(y));
        });
    });
    const std::vector<float> expected = {12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34};
    EXPECT_EQ(sync(std::move(sums).and_then([](auto y) { return download(std::move(y)); }), pool), expected);
}

TEST_F(mdspans, a_kernel_reads_a_shared_tensor_with_an_extent_known_when_it_was_compiled) {
    const shared_tensor<float> x(sync(upload(numbers(6), {3, 2}), pool));
    auto y = zeros<float>({3}).and_then([x](tensor<float> to) { return launch(second_of_pairs{}, x, std::move(to)); });
    EXPECT_EQ(sync(std::move(y).and_then([](auto all) { return download(std::move(all)); }), pool),
              (std::vector<float>{1, 3, 5}));
}

TEST_F(mdspans, a_tensor_of_another_shape_is_refused_before_the_launch) {
    const shared_tensor<float> x(sync(upload(numbers(6), {2, 3}), pool));
    auto y = zeros<float>({3}).and_then([x](tensor<float> to) { return launch(second_of_pairs{}, x, std::move(to)); });
    expect_refused(errc::shape_mismatch, {"a tensor of shape [2, 3] does not fit an mdspan of extents [any, 2]"},
                   [&] { sync(std::move(y), pool); });
}

TEST_F(mdspans, tiles_are_strided) {
    const shared_tensor<float> x(sync(upload(numbers(35), {5, 7}), pool));
    for (const shape& tile : {shape{2, 3}, shape{1, 4}, shape{5, 7}, shape{8, 1}}) {
        auto y = zeros<float>({5, 7}).and_then([x, tile](tensor<float> to) {
            auto tiles = std::move(to).partition(tile);
            const auto range = each_of(tiles);
            return launch(copy_tile{}, range, x, std::move(tiles));
        });
        auto whole = std::move(y).and_then([](auto tiles) { return download(std::move(tiles).unpartition()); });
        EXPECT_EQ(sync(std::move(whole), pool), numbers(35)) << to_string(tile);
    }
}

TEST_F(mdspans, a_view_is_an_mdspan_of_one_dimension) {
    const shared_tensor<float> x(sync(upload(numbers(3)), pool));
    auto y = zeros<float>({3}).and_then([x](tensor<float> to) { return launch(reversed{}, x, std::move(to)); });
    EXPECT_EQ(sync(std::move(y).and_then([](auto all) { return download(std::move(all)); }), pool),
              (std::vector<float>{2, 1, 0}));
}

TEST_F(mdspans, a_compiled_graph_runs_a_kernel_that_takes_one) {
    const auto sums = [](tensor<float> x) {
        return zeros<float>({3, 4}).and_then([x = std::move(x)](tensor<float> y) mutable {
            return launch(sum_of_planes{}, std::move(x), std::move(y));
        });
    };
    const auto fast = compile(pool, sums, device_input<float>({2, 3, 4}));
    for (const float factor : {1.f, 2.f}) {
        std::vector<float> x = numbers(24);
        for (float& each : x) each *= factor;
        auto y =
            upload(std::move(x), {2, 3, 4}).and_then(fast).and_then([](auto all) { return download(std::move(all)); });
        EXPECT_EQ(sync(std::move(y), pool)[11], 34 * factor);
    }
}

TEST_F(mdspans, the_simulator_sees_what_a_kernel_reads_through_one) {
    const auto program = [&](scheduling_policy& streams) {
        const shared_tensor<float> x(sync(upload(numbers(24), {2, 3, 4}), streams));
        auto y =
            zeros<float>({3, 4}).and_then([x](tensor<float> to) { return launch(sum_of_planes{}, x, std::move(to)); });
        return sync(std::move(y).and_then([](auto all) { return download(std::move(all)); }), streams)[0];
    };
    sim::explore(program, {.schedules = 50}).require_clean();
}

// --- on the host -----------------------------------------------------------------------------------------------------

TEST_F(mdspans, a_vector_becomes_one_and_comes_back) {
    std::vector<float> x = numbers(24);
    const auto m = as_mdspan<spans<float, 3>>(x, {2, 3, 4});
    m(1, 2, 3) = -1;
    EXPECT_EQ(x.back(), -1);
    EXPECT_EQ(shape_of(m), (shape{2, 3, 4}));
    EXPECT_EQ(elements_of(m).data(), x.data());
    EXPECT_EQ(elements_of(m).size(), 24u);
    const auto device = upload(std::vector<float>(elements_of(m).begin(), elements_of(m).end()), shape_of(m));
    static_cast<void>(device);
}

TEST_F(mdspans, no_dimension_is_one_element) {
    float x = 3;
    const auto m = as_mdspan<spans<float, 0>>(std::span(&x, 1), shape{});
    EXPECT_EQ(shape_of(m), shape{});
    EXPECT_EQ(elements_of(m).size(), 1u);
    EXPECT_EQ(elements_of(m)[0], 3);
}

TEST_F(mdspans, no_elements_are_no_elements) {
    const auto m = as_mdspan<spans<const float, 2>>(std::span<const float>(), {0, 4});
    EXPECT_EQ(shape_of(m), (shape{0, 4}));
    EXPECT_TRUE(elements_of(m).empty());
}

TEST_F(mdspans, a_region_is_strided) {
    std::vector<float> x = numbers(35);
    const auto m = as_mdspan<strided<float>>(x, {5, 7}, region{.at = {1, 2}, .shape = {3, 4}});
    EXPECT_EQ(shape_of(m), (shape{3, 4}));
    EXPECT_EQ(m(0, 0), 9);
    EXPECT_EQ(m(2, 3), 26);
    EXPECT_EQ(m.stride(0), 7u);

    using box = ::cuda::std::mdspan<const float, ::cuda::std::dextents<int, 3>, ::cuda::std::layout_stride>;
    const std::vector<float> y = numbers(60);
    const auto b = as_mdspan<box>(y, {3, 4, 5}, region{.at = {1, 1, 2}, .shape = {2, 3, 2}});
    EXPECT_EQ(b(0, 0, 0), 27);
    EXPECT_EQ(b(1, 2, 1), 58);
}

TEST_F(mdspans, what_does_not_fit_is_refused) {
    std::vector<float> x = numbers(6);
    expect_refused(errc::shape_mismatch, {"6 elements cannot have shape [2, 2]"},
                   [&] { as_mdspan<spans<float, 2>>(x, {2, 2}); });
    expect_refused(errc::shape_mismatch, {"a tensor of shape [6] does not fit an mdspan of extents [any, any]"},
                   [&] { as_mdspan<spans<float, 2>>(x, {6}); });
    expect_refused(errc::shape_mismatch, {"[2, 2] at [1, 2]"},
                   [&] { as_mdspan<strided<float>>(x, {2, 3}, region{.at = {1, 2}, .shape = {2, 2}}); });
    std::vector<float> many(300);
    using small = ::cuda::std::mdspan<float, ::cuda::std::dextents<signed char, 1>>;
    expect_refused(errc::shape_mismatch, {"whose index is at most 127"}, [&] { as_mdspan<small>(many, {300}); });
    using small_box = ::cuda::std::mdspan<float, ::cuda::std::dextents<signed char, 2>, ::cuda::std::layout_stride>;
    expect_refused(errc::shape_mismatch, {"more elements than the index of an mdspan counts"},
                   [&] { as_mdspan<small_box>(many, {2, 150}, region{.at = {0, 0}, .shape = {2, 2}}); });
}

TEST_F(mdspans, a_tensor_is_one_for_code_of_others) {
    device& cpu = machine.find("cpu");
    single_stream on_cpu(cpu);
    tensor<float> x = sync(upload(numbers(12), {3, 4}), on_cpu);
    EXPECT_EQ((as_mdspan<spans<const float, 2>>(x)(2, 1)), 9);
    EXPECT_EQ((as_mdspan<strided<float>>(x, region{.at = {1, 1}, .shape = {2, 2}})(1, 1)), 10);
    const shared_tensor<float> shared(std::move(x));
    EXPECT_EQ((as_mdspan<spans<const float, 2>>(shared)(1, 0)), 4);
    EXPECT_EQ((as_mdspan<strided<const float>>(shared, region{.at = {2, 0}, .shape = {1, 4}})(0, 3)), 11);
    expect_refused(errc::invalid_argument, {"moved from"}, [&] { as_mdspan<spans<float, 2>>(x); });
}

TEST_F(mdspans, memory_of_one_is_adopted) {
    device& cpu = machine.find("cpu");
    single_stream on_cpu(cpu);
    const auto owner = std::make_shared<std::vector<float>>(numbers(12));
    const auto m = as_mdspan<spans<float, 2>>(*owner, {3, 4});
    tensor<float> x = adopt(cpu, elements_of(m).data(), shape_of(m), owner);
    auto twice = sync(value(std::move(x)).and_then([](auto all) { return scale(std::move(all), 2); }), on_cpu);
    EXPECT_EQ(m(2, 3), 22);
    EXPECT_EQ(twice.shape(), shape_of(m));
}

}  // namespace sluice::mdspan_tests
