// SPDX-License-Identifier: Apache-2.0
// Arithmetic, transpose and reductions name all memory that they access: no schedule shows a race or another result.
#include <gtest/gtest.h>

#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/transpose.hpp"
#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim::elementwise_tests {
namespace {

auto numbers() { return upload(std::vector<float>{1, 5, 2, 8, 4, 4}, {2, 3}); }

// All operations on one shared tensor, concurrently.
auto of_one_shared_tensor() {
    return share(numbers()).and_then([](shared_tensor<float> x) {
        auto doubled = numbers().and_then([x](auto y) { return add(std::move(y), x); });
        auto scaled = std::move(doubled).and_then([](auto y) { return scale(std::move(y), 0.5f); });
        auto small = std::move(scaled).and_then([](auto y) { return cast<half>(std::move(y)); });
        return zip(std::move(small), transpose(x), sum(x), argmax(x, reduce_over::all))
            .and_then([](auto halves, auto transposed, auto sums, auto place) {
                return zip(download(std::move(halves)), download(std::move(transposed)), download(std::move(sums)),
                           download(std::move(place)));
            });
    });
}

TEST(elementwise, operations_are_ordered_by_the_memory_that_they_name) {
    const exploration made = explore([] { return of_one_shared_tensor(); }, {.schedules = 2'000});
    made.require_clean();
    simulator machine;
    const auto [halves, transposed, sums, place] = sync(of_one_shared_tensor(), machine.pool());
    EXPECT_EQ(std::vector<float>(halves.begin(), halves.end()), (std::vector<float>{1, 5, 2, 8, 4, 4}));
    EXPECT_EQ(transposed, (std::vector<float>{1, 8, 5, 4, 2, 4}));
    EXPECT_EQ(sums, (std::vector<float>{8, 16}));
    EXPECT_EQ(place, (std::vector<std::int64_t>{3}));
}

}  // namespace
}  // namespace sluice::sim::elementwise_tests
