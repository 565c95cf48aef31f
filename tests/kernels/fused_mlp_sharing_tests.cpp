// SPDX-License-Identifier: Apache-2.0
// Workers share the rows, or the columns, of a fused perceptron: no bit of the outputs depends on that.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::fused_mlp_sharing_tests {
namespace {

std::vector<float> numbers(std::size_t count, float scale) {
    std::vector<float> made(count);
    std::uint32_t state = static_cast<std::uint32_t>(count);
    for (float& each : made) {
        state = state * 1664525u + 1013904223u;
        each = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1);
    }
    return made;
}

std::vector<mlp_layer> network(const std::vector<std::size_t>& widths, activation hidden, activation last) {
    std::vector<mlp_layer> layers;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        layers.push_back({widths[i], widths[i + 1], numbers(widths[i] * widths[i + 1], 0.1f), numbers(widths[i + 1], 1),
                          i + 2 == widths.size() ? last : hidden});
    }
    return layers;
}

class machine {
public:
    explicit machine(std::size_t workers) : owner_({.cpu_devices = 1, .cpu_workers = workers, .cuda = false}) {}

    template <typename T>
    std::vector<T> run(const std::vector<mlp_layer>& layers, std::vector<T> x) {
        const auto packed = sync(pack_mlp<T>(layers), on_);
        const std::size_t in = layers.front().in_features, rows = x.size() / in;
        return sync(upload(std::move(x), {rows, in})
                        .and_then([&](tensor<T> given) { return fused_mlp(std::move(given), packed); })
                        .and_then(download),
                    on_);
    }

private:
    runtime owner_;
    single_stream on_{owner_.find("cpu:0")};
};

template <typename T>
void expect_the_same(const std::vector<std::size_t>& widths, activation hidden, activation last) {
    const std::vector<mlp_layer> layers = network(widths, hidden, last);
    machine alone(1), shared(4);
    const std::size_t in = widths.front(), out = widths.back();
    // A row at a time goes through other loops than many do.
    for (const std::size_t rows : {1, 2, 7, 8, 12, 13, 31, 48, 49, 64, 100, 601}) {
        std::vector<float> given = numbers(rows * in, 1);
        given[(rows - 1) * in] = std::nanf("");
        given[rows / 2 * in] = INFINITY;
        const std::vector<T> x(given.begin(), given.end());
        const std::vector<T> one = alone.run<T>(layers, x), many = shared.run<T>(layers, x);
        ASSERT_EQ(one.size(), rows * out);
        EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(T)), 0) << rows << " rows";
        const std::size_t row = rows / 3;
        const std::vector<T> by_itself =
            alone.run<T>(layers, std::vector<T>(x.begin() + static_cast<std::ptrdiff_t>(row * in),
                                                x.begin() + static_cast<std::ptrdiff_t>((row + 1) * in)));
        EXPECT_EQ(std::memcmp(by_itself.data(), one.data() + row * out, out * sizeof(T)), 0) << row << " of " << rows;
    }
}

}  // namespace

TEST(fused_mlp_sharing, changes_no_bit_of_wide_networks) {
    expect_the_same<float>({784, 512, 500, 10}, activation::relu, activation::none);
    expect_the_same<float>({300, 1000, 700}, activation::tanh, activation::softmax);
}

// Of which no core reads all weights.
TEST(fused_mlp_sharing, changes_no_bit_of_huge_networks) {
    expect_the_same<float>({1100, 2000, 10}, activation::relu, activation::softmax);
}

TEST(fused_mlp_sharing, changes_no_bit_of_narrow_networks_and_of_16_bits) {
    expect_the_same<float>({64, 64, 64, 10}, activation::relu, activation::softmax);
    expect_the_same<float>({32, 256, 256, 1}, activation::relu, activation::none);
    expect_the_same<float>({70, 3, 50, 2}, activation::gelu, activation::softmax);
    expect_the_same<half>({784, 512, 10}, activation::relu, activation::sigmoid);
    expect_the_same<bfloat16>({400, 900, 33}, activation::gelu, activation::none);
}

}  // namespace sluice::fused_mlp_sharing_tests
