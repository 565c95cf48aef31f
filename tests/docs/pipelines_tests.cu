// SPDX-License-Identifier: Apache-2.0
// The code in docs/pipelines.md. Runs on the default device: a GPU if there is one.
#include "sluice/kernels/pipelined_transform.hpp"

#include <gtest/gtest.h>

#include "sluice/sluice.hpp"

namespace sluice::docs {
namespace {

struct square {
    SLUICE_KERNEL void operator()(const float* batch, float* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[i] * batch[i];
    }
};

TEST(pipelines, a_function_over_a_tensor) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    const std::vector<float> x(5000, 3);
    auto squares =
        upload(x).and_then([](auto t) { return pipelined_transform(pipelined::bulk<2>{}, square{}, std::move(t)); });
    EXPECT_EQ(sync(std::move(squares).and_then(download), pool), std::vector<float>(5000, 9));
}

}  // namespace
}  // namespace sluice::docs
