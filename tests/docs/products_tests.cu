// SPDX-License-Identifier: Apache-2.0
// The code in docs/products.md.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/one_of.hpp"
#include "sluice/kernels/tile_launch.hpp"
#include "sluice/kernels/tile_reduce.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::products_tests {
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

struct multiply_each {  // c[i] = a[i] * b[i], for the matrices of three batches
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<const float, 16, 8> a,
                                  batch_tiles_of<const float, 8, 16> b, batch_tiles_of<float, 16, 16> c) const {
        const auto left = a.matrix(at.batch());
        const auto right = b.matrix(at.batch());
        accumulator<float, 16, 16> sum;
        for (unsigned k = 0; k < left.across(); ++k) mma(left.load(at.row(), k), right.load(k, at.column()), sum);
        c.store(at, sum);
    }
};

struct softmax_rows {  // of a matrix of at most 64 columns
    SLUICE_KERNEL void operator()(const tile_block& at, tiles_of<float, 16, 64> x) const {
        const auto mine = x.load(at, -INFINITY);  // beyond the edges, where zeros would count
        const auto largest = broadcast<16, 64>(row_maxima(mine));
        const auto powers = map(mine, largest, [](float a, float b) { return expf(a - b); });
        const auto sums = broadcast<16, 64>(row_sums(powers));
        x.store(at, map(powers, sums, [](float a, float b) { return a / b; }));
    }
};

}  // namespace

TEST(products, of_batches_and_reductions_are_written_with_tiles) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu:0"));
    const std::vector<float> twos(3 * 20 * 20, 2);
    auto each = [](tensor<float> a, tensor<float> b, tensor<float> c) {
        auto tiles = batch_partition(std::move(c), {1, 16, 16});
        return launch(multiply_each{}, std::move(a), std::move(b), std::move(tiles)).transform([](auto done) {
            return std::move(done).unpartition();
        });
    };
    auto products = zip(upload(twos, {3, 20, 20}), upload(twos, {3, 20, 20}), zeros<float>({3, 20, 20})).and_then(each);
    EXPECT_EQ(sync(std::move(products).and_then(download), pool), std::vector<float>(3 * 20 * 20, 80));
    auto rows = launch(softmax_rows{}, upload(std::vector<float>(30 * 50, -7), {30, 50})).and_then(download);
    for (const float part : sync(std::move(rows), pool)) ASSERT_NEAR(part, 0.02f, 1e-6f);
}

TEST(products, are_by_the_fastest_of_several_kernels) {
    runtime machine({.cuda = false});
    device& gpu = machine.find("cpu:0");
    single_stream pool(gpu);
    const std::filesystem::path file =
        std::filesystem::path(testing::TempDir()) / ("products_" + std::to_string(::getpid()) + ".txt");
    auto a = sync(ones<float>({50, 40}), pool), b = sync(ones<float>({40, 30}), pool);
    auto c = sync(zeros<float>({50, 30}), pool);
    const auto table = std::make_shared<tuning_table>();
    if (std::filesystem::exists(file)) table->load(file);
    const one_of<multiply<float, 16, 16, 8>, multiply<float, 32, 32, 8>> product(table);

    tune(gpu, product, a, b, c);  // once for these shapes
    table->save(file);
    auto done = launch(product, std::move(a), std::move(b), std::move(c));
    EXPECT_EQ(sync(std::move(done).and_then(download), pool), std::vector<float>(50 * 30, 40));
    EXPECT_TRUE(std::filesystem::remove(file));
}

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

}  // namespace sluice::docs::products_tests
