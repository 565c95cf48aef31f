// SPDX-License-Identifier: Apache-2.0
// The code in docs/coming_from_cuda.md.
#include <gtest/gtest.h>

#include <numeric>

#include "sluice/sluice.hpp"

namespace sluice::docs::coming_from_cuda_tests {
namespace {

auto work(tensor<float> x) { return scale(std::move(x), 2); }

}  // namespace

TEST(coming_from_cuda, two_halves_on_two_streams) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const std::vector<float> numbers(1024, 1);
    auto [low, high] = split<2>(sync(upload(numbers), pool));
    auto first = spawn(work(std::move(low)).and_then(download), pool);    // on one stream
    auto second = spawn(work(std::move(high)).and_then(download), pool);  // on the next one, concurrently
    EXPECT_EQ(std::move(first).get(), std::vector<float>(512, 2));
    EXPECT_EQ(std::move(second).get(), std::vector<float>(512, 2));
}

TEST(coming_from_cuda, a_callback_and_a_time) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    tensor<float> x = sync(full<float>({10}, 3), pool);
    stream on = pool.next();
    event before = event::record(on);
    auto summed = work(std::move(x)).and_then(download).and_then([](auto landed) {
        return host_call([](std::vector<float> y) { return std::accumulate(y.begin(), y.end(), 0.f); },
                         std::move(landed));
    });
    const float sum = sync_on(std::move(summed), on);
    event after = event::record(on);
    const std::chrono::duration<double, std::micro> took = elapsed(before, after);
    EXPECT_EQ(sum, 60);
    EXPECT_GE(took.count(), 0);
}

}  // namespace sluice::docs::coming_from_cuda_tests
