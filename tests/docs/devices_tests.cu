// SPDX-License-Identifier: Apache-2.0
// The code in docs/devices.md.
#include <gtest/gtest.h>

#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/sluice.hpp"

namespace {
using namespace sluice;

TEST(devices_page, a_batch_over_all_devices) {
    const std::vector<float> rows(1000 * 64, 1.0f);
    // clang-format off
    runtime machine;
    const device_set all = device_set::of(machine);      // all GPUs, or else all CPU devices
    round_robin_devices pool(all, 4);                             // four streams of each

    auto weights = sync(on_device(all[0], randn({64, 64}, 1)).and_then(replicate(all)), pool);
    auto parts = sync(shard(all, rows, {1000, 64}), pool);
    auto outputs = sync(on_each(all, [&](std::size_t i) { return gemm(std::move(parts[i]), weights[i]); })
                            .and_then(gather)
                            .and_then(download), pool);
    // clang-format on
    ASSERT_EQ(outputs.size(), 1000u * 64);
    const auto w = sync(on_device(all[0], download(weights[0])), pool);
    double sum = 0;
    for (std::size_t k = 0; k < 64; ++k) sum += double{w[k * 64]};
    EXPECT_NEAR(outputs[0], sum, 1e-3);
    EXPECT_NEAR(outputs[999 * 64], sum, 1e-3);
}

TEST(devices_page, gradients_are_summed) {
    runtime machine({.cpu_devices = 2, .cuda = false});
    const device_set all = device_set::of(machine);
    round_robin_devices pool(all, 2);
    const auto gradients = [](std::size_t i) { return upload(std::vector<float>(10, float(i + 1))); };
    // clang-format off
    const communicator ranks(all);
    auto sums = sync(on_each(all, gradients).and_then([=](auto parts) {
        return all_reduce(ranks, reduce_op::sum, std::move(parts));
    }), pool);
    // clang-format on
    EXPECT_EQ(sync(download_each(std::move(sums)), pool), std::vector(2, std::vector<float>(10, 3)));
}

}  // namespace
