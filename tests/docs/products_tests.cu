// SPDX-License-Identifier: Apache-2.0
// The code in docs/products.md.
#include <gtest/gtest.h>

#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/tile_launch.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs {
namespace {

template <typename T, int Rows, int Columns, int Inner>
struct multiply {  // c = a * b
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<const T, Rows, Inner> a,
                                  tiles_of<const T, Inner, Columns> b, tiles_of<T, Rows, Columns> c) const {
        accumulator<T, Rows, Columns> sum;
        for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, at.column()), sum);
        c.store(at, sum);
    }
    const char* misfit(tiles_of<const T, Rows, Inner> a, tiles_of<const T, Inner, Columns> b,
                       tiles_of<T, Rows, Columns> c) const {
        const bool fit = a.columns() == b.rows() && c.rows() == a.rows() && c.columns() == b.columns();
        return fit ? nullptr : "the sizes of the matrices do not fit a product";
    }
};

struct add_product {  // z += x * y
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 32, 32> z, tiles_of<const float, 32, 16> x,
                                  tiles_of<const float, 16, 32> y) const {
        accumulator<float, 32, 32> sum(z, at);
        for (unsigned k = 0; k < x.across(); ++k) mma(x.load(at.row(), k), y.load(k, at.column()), sum);
        z.store(at, sum);
    }
};

}  // namespace

TEST(products, are_written_with_tiles) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu:0"));
    auto square = [](tensor<half> a, shared_tensor<half> b, tensor<half> c) {
        return launch(multiply<half, 64, 64, 32>{}, std::move(a), b, std::move(c).partition({64, 64}))
            .transform([](auto tiles) { return std::move(tiles).unpartition(); });
    };
    const std::size_t size = 70;
    const std::vector<half> all_ones(size * size, half(1.0f));
    auto ones = sync(upload(all_ones, {size, size}), pool), c = sync(upload(all_ones, {size, size}), pool);
    const auto shared_ones = sync(share(upload(all_ones, {size, size})), pool);
    auto product = square(std::move(ones), shared_ones, std::move(c)).and_then(download);
    for (const half each : sync(std::move(product), pool)) ASSERT_EQ(float{each}, static_cast<float>(size));

    const std::vector<float> halves(size * size, 0.5f);
    auto sum =
        launch(add_product{}, upload(halves, {size, size}), upload(halves, {size, size}), upload(halves, {size, size}))
            .and_then(download);
    for (const float each : sync(std::move(sum), pool)) ASSERT_EQ(each, 0.5f + 0.25f * static_cast<float>(size));
}

TEST(products, of_16_bits_are_layers) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu:0"));
    const auto weight = sync(share(upload(std::vector<bfloat16>(4 * 3, bfloat16(1.0f)), {4, 3})), pool);
    const auto bias = sync(share(upload(std::vector<bfloat16>(4, bfloat16(0.5f)), {4})), pool);
    std::vector<bfloat16> x(2 * 3, bfloat16(2.0f));
    auto layer = upload(std::move(x), {2, 3}).and_then(linear(weight, bias, activation::gelu)).and_then(download);
    for (const bfloat16 each : sync(std::move(layer), pool)) EXPECT_EQ(float{each}, 6.5f);
}

}  // namespace sluice::docs
