// SPDX-License-Identifier: Apache-2.0
// Convolution, in several passes over one workspace, and pooling name all memory that they access.
#include <gtest/gtest.h>

#include "sluice/kernels/convolution.hpp"
#include "sluice/kernels/pooling.hpp"
#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim::image_tests {
namespace {

// Two images, each large enough to fill the workspace, convolved by the library and by im2col concurrently, then
// pooled.
auto convolved_both_ways() {
    const shape images{2, 1, 120, 120}, filters{1, 1, 3, 3};
    std::vector<float> x(images.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
    auto operands =
        zip(share(upload(std::move(x), images)), share(upload(std::vector<float>{0, 1, 0, 1, 2, 1, 0, 1, 0}, filters)));
    return std::move(operands).and_then([](shared_tensor<float> from, shared_tensor<float> filter) {
        const auto one = [&](bool by_library) {
            return convolution(from, filter, {.padding = {1, 1}, .after = activation::relu, .use_library = by_library})
                .and_then([](auto image) { return max_pooling(std::move(image), {.window = {60, 40}}); })
                .and_then(download);
        };
        return zip(one(true), one(false));
    });
}

TEST(images, operations_are_ordered_by_the_memory_that_they_name) {
    explore([] { return convolved_both_ways(); }, {.schedules = 200}).require_clean();
    simulator machine;
    const auto [by_library, by_im2col] = sync(convolved_both_ways(), machine.pool());
    EXPECT_EQ(by_library.size(), 2u * 2 * 3);
    EXPECT_EQ(by_library, by_im2col);  // small integers: exact
}

}  // namespace
}  // namespace sluice::sim::image_tests
