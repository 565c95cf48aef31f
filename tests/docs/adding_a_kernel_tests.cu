// SPDX-License-Identifier: Apache-2.0
// The code in docs/adding_a_kernel.md.
#include <gtest/gtest.h>

#include "sluice/sluice.hpp"

namespace sluice::docs::adding_a_kernel_tests {
namespace {

// y = a * x + y, in place.
struct axpy {
    SLUICE_KERNEL void operator()(index_1d at, float a, view<const float> x, disjoint_view<float> y) const {
        if (float* element = y.at(at)) *element += a * x[at.value()];
    }
};

auto add_scaled(float a, tensor<float> x, tensor<float> y) {
    return launch(axpy{}, each_of(y), a, std::move(x), std::move(y));
}

// Every row of a tile becomes that row's number in the whole.
struct number_rows {
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<unsigned> out) const {
        const tile_view<unsigned> tile = out.at(at);
        for (std::size_t row = 0; row < tile.rows(); ++row) {
            for (std::size_t column = 0; column < tile.columns(); ++column)
                tile(row, column) = static_cast<unsigned>(tile.first_row() + row);
        }
    }
};

}  // namespace

TEST(adding_a_kernel, an_elementwise_kernel) {
    runtime machine;
    single_stream pool(machine.default_device());
    auto operation =
        zip(upload(std::vector<float>{1, 2}), upload(std::vector<float>{3, 4})).and_then([](auto x, auto y) {
            return add_scaled(2, std::move(x), std::move(y));
        });
    EXPECT_EQ(sync(std::move(operation).and_then(download), pool), (std::vector<float>{5, 8}));
}

TEST(adding_a_kernel, a_kernel_over_tiles) {
    runtime machine;
    single_stream pool(machine.default_device());
    auto numbered = zeros<unsigned>({3, 2})
                        .transform([](auto whole) { return std::move(whole).partition({2, 2}); })
                        .and_then([](auto tiles) { return launch(number_rows{}, each_of(tiles), std::move(tiles)); })
                        .transform([](auto tiles) { return std::move(tiles).unpartition(); })
                        .and_then(download);
    EXPECT_EQ(sync(std::move(numbered), pool), (std::vector<unsigned>{0, 0, 1, 1, 2, 2}));
}

}  // namespace sluice::docs::adding_a_kernel_tests
