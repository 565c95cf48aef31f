// SPDX-License-Identifier: Apache-2.0
// The code in docs/pipelines.md. Runs on the default device: a GPU if there is one.
#include "sluice/kernels/pipelined_transform.hpp"

#include <gtest/gtest.h>

#include "sluice/kernels/pipelined_loops.hpp"
#include "sluice/kernels/pipelined_reduce.hpp"
#include "sluice/runtime/thread_grid.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::pipelines_tests {
namespace {

struct square {
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i] * batch[i];
    }
};

// out = in / 2
struct halve {
    using form = pipelined::part<128, pipelined::roles_where<2, pipelined::even_ranks>>;
    static constexpr std::size_t batch = 2048;

    SLUICE_KERNEL void operator()(const thread_grid& grid, shared_memory<float> shared, view<const float> in,
                                  grid_memory<double> out) const {
        float* own = nullptr;
        grid.for_each_block([&](const thread_block& block) { own = block.data(shared); });
        run_pipelined(form{}, pipelined::batches<float>{in.data(), in.size(), batch}, own,
                      [&](const float* staged, std::size_t first, std::size_t count, unsigned rank, unsigned threads) {
                          for (std::size_t i = rank; i < count; i += threads)
                              grid.data(out)[first + i] = staged[i] / 2.0;
                      });
    }
};

struct sum_of_squares {
    using value = double;
    SLUICE_KERNEL value none() const { return 0; }
    SLUICE_KERNEL void add(value& sum, const float* batch, std::size_t, std::size_t count, unsigned rank,
                           unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) sum += double{batch[i]} * batch[i];
    }
    SLUICE_KERNEL value combine(value a, value b) const { return a + b; }
};

TEST(pipelines, a_function_over_a_tensor) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const std::vector<float> x(5000, 3);
    auto squares =
        upload(x).and_then([](auto t) { return pipelined_transform(pipelined::bulk<2>{}, square{}, std::move(t)); });
    EXPECT_EQ(sync(std::move(squares).and_then(download), pool), std::vector<float>(5000, 9));
}

TEST(pipelines, a_value_of_a_tensor) {
    runtime machine;
    single_stream pool(machine.default_device());
    const std::vector<float> x(5000, 3);
    auto total = upload(x).and_then(
        [](auto t) { return pipelined_reduce(pipelined::thread_scope<4>{}, sum_of_squares{}, std::move(t)); });
    EXPECT_EQ(sync(std::move(total).and_then(download), pool), std::vector<double>{45000});
}

TEST(pipelines, a_loop_in_a_kernel_of_a_user) {
    runtime machine;
    single_stream pool(machine.default_device());
    std::vector<float> x(5000, 3);
    x[17] = x[4999] = -1;
    auto halves = zip(upload(x), uninitialized<double>({x.size()})).and_then([](auto in, auto out) {
        const std::size_t staged = pipelined::shared_bytes<halve::form>(256, halve::batch * sizeof(float));
        return launch(halve{}, blocks(3, 256), shared_memory<float>(staged / sizeof(float)), std::move(in),
                      std::move(out));
    });
    std::vector<double> expected(5000, 1.5);
    expected[17] = expected[4999] = -0.5;
    EXPECT_EQ(sync(std::move(halves).and_then(download), pool), expected);
}

}  // namespace
}  // namespace sluice::docs::pipelines_tests
