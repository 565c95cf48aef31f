// SPDX-License-Identifier: Apache-2.0
// The code in docs/pipelines.md. Runs on the default device: a GPU if there is one.
#include "sluice/kernels/pipelined_transform.hpp"

#include <gtest/gtest.h>

#include <array>

#include "sluice/kernels/pipelined_loops.hpp"
#include "sluice/kernels/pipelined_reduce.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::pipelines_tests {
namespace {

struct square {
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i] * batch[i];
    }
};

// out = in / 2, and the number of elements below 0.
struct halve_and_count {
    const float* in;
    double* out;
    std::size_t size;
    unsigned* below_zero;

    template <typename Form>
    SLUICE_KERNEL void run(Form form, void* shared) const {
        unsigned mine = 0;
        run_pipelined(form, pipelined::batches<float>{in, size, 2048}, shared,
                      [&](const float* batch, std::size_t first, std::size_t count, unsigned rank, unsigned threads) {
                          for (std::size_t i = rank; i < count; i += threads) {
                              out[first + i] = batch[i] / 2.0;
                              if (batch[i] < 0) ++mine;
                          }
                      });
#if defined(__CUDA_ARCH__)
        atomicAdd(below_zero, mine);
#else
        *below_zero += mine;
#endif
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

using form = pipelined::part<128, pipelined::roles_where<2, pipelined::even_ranks>>;

void run_on_host(const void* closure) { static_cast<const halve_and_count*>(closure)->run(form{}, nullptr); }

#if defined(__CUDACC__)
__global__ void run_on_device(const __grid_constant__ halve_and_count call) {
    extern __shared__ __align__(128) unsigned char shared[];
    call.run(form{}, shared);  // the threads from 128 on return at once
}
#endif

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
    stream on = pool.next();
    std::vector<float> values(5000, 3);
    values[17] = values[4999] = -1;
    const auto x = sync(upload(values), pool);
    auto halves = sync(zeros<double>({5000}), pool);
    auto below_zero = sync(zeros<unsigned>({1}), pool);

    halve_and_count call{x.device_data(), halves.device_data(), x.size(), below_zero.device_data()};
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{halves.memory(), access_mode::write},
                              memory_access{below_zero.memory(), access_mode::write}};
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&run_on_device);
#endif
    command.host_function = &run_on_host;
    command.grid.x = 3;
    command.block.x = 256;
    command.shared_bytes = pipelined::shared_bytes<form>(256, 2048 * sizeof(float));
    detail::set_closure(command, call);
    on.launch({"halve_and_count", accesses}, command);

    EXPECT_EQ(sync(download(std::move(below_zero)), pool), std::vector<unsigned>{2});
    std::vector<double> expected(5000, 1.5);
    expected[17] = expected[4999] = -0.5;
    EXPECT_EQ(sync(download(std::move(halves)), pool), expected);
}

}  // namespace
}  // namespace sluice::docs::pipelines_tests
