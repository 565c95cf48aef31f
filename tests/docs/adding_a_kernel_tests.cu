// SPDX-License-Identifier: Apache-2.0
// The code in docs/adding_a_kernel.md.
#include <gtest/gtest.h>

#include "sluice/sluice.hpp"

namespace sluice::docs {
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

// y = the differences of neighbours in x, with a mistake: the last element has no right neighbour.
struct differences {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* element = y.at(at)) *element = x[at.value() + 1] - x[at.value()];
    }
};

}  // namespace

#if SLUICE_CHECK_BOUNDS
TEST(adding_a_kernel, bounds_are_checked) {
    runtime machine({.cpu_devices = 1, .cuda = false});
    single_stream pool(machine.default_device());
    auto operation = zip(ones<float>({10}), zeros<float>({10})).and_then([](auto x, auto y) {
        auto range = each_of(y);
        return launch(differences{}, range, std::move(x), std::move(y));
    });
    try {
        sync(std::move(operation).and_then(download), pool);
        FAIL() << "nothing was thrown";
    } catch (const error& found) {
        EXPECT_EQ(found.code(), errc::out_of_range);
        const std::string_view what = found.what();
        const std::string_view begin = "differences on cpu:0: element 10 of a view is out of range: its size is 10 (";
        EXPECT_EQ(what.substr(0, begin.size()), begin);
    }
}
#endif

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

}  // namespace sluice::docs
