// SPDX-License-Identifier: Apache-2.0
// Figures of many calls, and when there are none.
#include "sluice/latency.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "sluice/run_command.hpp"

namespace sluice::app::testing::latency_tests {
namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

// The milliseconds 1, 2, ..., in another order.
std::vector<double> milliseconds(std::size_t count) {
    std::vector<double> made(count);
    std::iota(made.begin(), made.end(), 1.0);
    for (double& each : made) each *= 1e-3;
    std::shuffle(made.begin(), made.end(), std::mt19937(1));
    return made;
}

}  // namespace

TEST(latency, is_the_time_of_the_call_at_that_rank) {
    const latency_summary found = summarize(milliseconds(1000));
    EXPECT_EQ(found.calls, 1000u);
    EXPECT_NEAR(found.seconds, 500.5, 1e-6);
    EXPECT_THAT(found.p50_us, Optional(DoubleNear(500e3, 1e-3)));
    EXPECT_THAT(found.p90_us, Optional(DoubleNear(900e3, 1e-3)));
    EXPECT_THAT(found.p99_us, Optional(DoubleNear(990e3, 1e-3)));
    EXPECT_THAT(found.max_us, Optional(DoubleNear(1000e3, 1e-3)));
}

TEST(latency, is_told_only_where_five_calls_are_slower) {
    const latency_summary few = summarize(std::vector<double>(9, 1.0));
    EXPECT_EQ(few.calls, 9u);
    EXPECT_FALSE(few.p50_us || few.p90_us || few.p99_us || few.max_us);
    const latency_summary ten = summarize(milliseconds(20));
    EXPECT_THAT(ten.p50_us, Optional(DoubleNear(10e3, 1e-3)));
    EXPECT_THAT(ten.max_us, Optional(DoubleNear(20e3, 1e-3)));
    EXPECT_FALSE(ten.p90_us || ten.p99_us);
    EXPECT_TRUE(summarize(milliseconds(50)).p90_us);
    EXPECT_FALSE(summarize(milliseconds(499)).p99_us);
    EXPECT_TRUE(summarize(milliseconds(500)).p99_us);
    EXPECT_FALSE(summarize({}).p50_us);
}

TEST(latency, is_not_told_of_a_measurement_that_is_too_short) {
    const latency_summary found = summarize(std::vector<double>(5000, 0.9 * least_measurable_seconds / 5000));
    EXPECT_EQ(found.calls, 5000u);
    EXPECT_FALSE(found.p50_us || found.p90_us || found.p99_us || found.max_us);
}

TEST(throughput, is_calls_over_time_where_that_is_long_enough) {
    EXPECT_THAT((throughput_summary{.calls = 300, .seconds = 1.5, .in_flight = 4}.calls_per_second()), Optional(200.0));
    EXPECT_FALSE((throughput_summary{.calls = 300, .seconds = 0.09, .in_flight = 4}.calls_per_second()));
}

}  // namespace sluice::app::testing::latency_tests
