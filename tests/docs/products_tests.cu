// SPDX-License-Identifier: Apache-2.0
// The code in docs/products.md.
#include <gtest/gtest.h>

#include <array>

#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/tile.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs {
namespace {

template <typename T, int Rows, int Columns, int Inner>
struct multiply {  // c = a * b
    tiles_of<const T, Rows, Inner> a;
    tiles_of<const T, Inner, Columns> b;
    tiles_of<T, Rows, Columns> c;

    SLUICE_KERNEL void operator()(const tile_block& at) const {
        accumulator<T, Rows, Columns> sum;
        for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, at.column()), sum);
        c.store(at, sum);
    }
};

void multiply_on(stream on, const tensor<half>& a, const tensor<half>& b, tensor<half>& c) {
    const multiply<half, 64, 64, 32> kernel{{a.device_data(), a.rows(), a.columns()},
                                            {b.device_data(), b.rows(), b.columns()},
                                            {c.device_data(), c.rows(), c.columns()}};
    const std::array accesses{memory_access{a.memory(), access_mode::read},
                              memory_access{b.memory(), access_mode::read},
                              memory_access{c.memory(), access_mode::write}};
    launch_tiles(on, {"multiply", accesses}, kernel.c, kernel);
}

}  // namespace

TEST(products, are_written_with_tiles) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu:0"));
    const std::size_t size = 70;
    const auto ones = sync(upload(std::vector<half>(size * size, half(1.0f)), {size, size}), pool);
    auto c = sync(upload(std::vector<half>(size * size), {size, size}), pool);
    multiply_on(pool.next(), ones, ones, c);
    for (const half each : sync(download(std::move(c)), pool)) ASSERT_EQ(float{each}, static_cast<float>(size));
}

TEST(products, of_16_bits_are_layers) {
    runtime machine({.cuda = false});
    single_stream pool(machine.find("cpu:0"));
    const auto weight = sync(share(upload(std::vector<bfloat16>(4 * 3, bfloat16(1.0f)), {4, 3})), pool);
    const auto bias = sync(share(upload(std::vector<bfloat16>(4, bfloat16(0.5f)), {4})), pool);
    std::vector<bfloat16> x(2 * 3, bfloat16(2.0f));
    auto layer = upload(std::move(x), {2, 3})
                     .and_then([=](auto in) { return linear(std::move(in), weight, bias, activation::gelu); })
                     .and_then(download);
    for (const bfloat16 each : sync(std::move(layer), pool)) EXPECT_EQ(float{each}, 6.5f);
}

}  // namespace sluice::docs
