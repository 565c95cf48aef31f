// SPDX-License-Identifier: Apache-2.0
// The simulator and kernels whose blocks work together.
#include <gtest/gtest.h>

#include <string>

#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"
#include "support/group_kernels.hpp"

namespace sluice::sim::group_kernel_tests {
namespace {

using namespace test_support;

// The sums of two clusters of two blocks, and of their sums.
auto sums_of_sums() {
    return zip(full<float>({16}, 1), zeros<float>({4}))
        .and_then([](auto x, auto out) {
            return launch(cluster_sums{}, blocks(4, 4).in_clusters_of(2), shared_memory<float>(4), std::move(x),
                          std::move(out));
        })
        .and_then([](auto sums) { return zip(value(std::move(sums)), zeros<float>({2}), zeros<float>({2})); })
        .and_then([](auto x, auto sums, auto out) {
            return launch(sum_of_the_others{}, blocks(2, 2), shared_memory<float>(2), std::move(x), std::move(sums),
                          std::move(out));
        })
        .and_then([](auto, auto out) { return download(std::move(out)); });
}

TEST(group_kernels_in_the_simulator, have_no_race) {
    const exploration made = explore(sums_of_sums, {.schedules = 300});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    simulator machine;
    EXPECT_EQ(sync(sums_of_sums(), machine.pool()), (std::vector<float>{16, 16}));
}

TEST(group_kernels_in_the_simulator, that_wait_at_a_wrong_place_are_refused) {
    simulator machine;
    try {
        sync(zeros<unsigned>({8})
                 .and_then([](auto x) { return launch(waits_inside_blocks{}, blocks(4, 2), std::move(x)); })
                 .and_then(download),
             machine.pool());
        ADD_FAILURE() << "nothing was thrown";
    } catch (const error& found) {
        EXPECT_EQ(found.code(), errc::invalid_argument) << found.what();
        EXPECT_EQ(found.operation(), "waits_inside_blocks") << found.what();
        EXPECT_NE(std::string(found.what()).find("inside for_each_block"), std::string::npos) << found.what();
    }
}

}  // namespace
}  // namespace sluice::sim::group_kernel_tests
