// SPDX-License-Identifier: Apache-2.0
// What a device says of itself.
#include "conformance/backend.hpp"

namespace sluice::conformance::device_property_tests {
namespace {

CONFORMANCE_SUITE(device_limits);

TEST_P(device_limits, describe_a_device_that_can_run_kernels) {
    const device_properties& all = on.properties();
    EXPECT_GE(all.compute_units, 1);
    EXPECT_GE(all.warp_size, 1);
    EXPECT_GE(all.max_threads_per_block, all.warp_size);
    EXPECT_GE(all.async_copy_engines, 0);
    if (on.kind() == device_kind::cpu) {
        EXPECT_EQ(all.warp_size, 1);
        EXPECT_EQ(all.max_threads_per_block, 1024);
        EXPECT_EQ(all.async_copy_engines, 0);
        EXPECT_EQ(all.max_shared_bytes_per_block, 232'448u);
        EXPECT_EQ(all.concurrent_kernels, GetParam().runs_concurrently);
        EXPECT_EQ(all.max_blocks_per_cluster, 8);
        EXPECT_TRUE(all.cooperative_launch);
    } else {
        EXPECT_EQ(all.max_blocks_per_cluster, all.compute_capability >= 90 ? 8 : 1);
        EXPECT_TRUE(all.cooperative_launch);
        EXPECT_EQ(all.warp_size, 32);
        EXPECT_GE(all.max_threads_per_block, 256);
        EXPECT_GE(all.max_shared_bytes_per_block, 48u << 10);
    }
}

TEST_P(device_limits, contain_the_priorities_that_streams_can_have) {
    const priority_range range = on.priorities();
    EXPECT_LE(range.highest, 0);
    EXPECT_GE(range.lowest, 0);
    for (const int priority : {range.highest, 0, range.lowest}) {
        EXPECT_EQ(on.interpreter().nearest({.priority = priority}).priority, priority);
        const stream_lease lease(on, {.priority = priority});
        EXPECT_EQ(sync_on(full<int>({3}, priority).and_then(download), *lease), std::vector<int>(3, priority));
    }
}

TEST(simulated_device_limits, are_those_of_one_unit) {
    sim::simulator machine;
    machine.begin(1);
    const stream on = machine.pool().next();
    const device& simulated = on.owner();
    EXPECT_EQ(simulated.properties().compute_units, 1);
    EXPECT_EQ(simulated.properties().max_threads_per_block, 1024);
    EXPECT_EQ(simulated.properties().warp_size, 1);
    EXPECT_TRUE(simulated.properties().concurrent_kernels);
    EXPECT_EQ(simulated.properties().max_blocks_per_cluster, 8);
    EXPECT_TRUE(simulated.properties().cooperative_launch);
    EXPECT_LT(simulated.priorities().highest, simulated.priorities().lowest);
}

}  // namespace
}  // namespace sluice::conformance::device_property_tests
