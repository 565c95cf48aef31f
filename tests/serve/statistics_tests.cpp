// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/statistics.hpp"

#include <gtest/gtest.h>

namespace sluice::serve::statistics_tests {
namespace {

using namespace std::chrono_literals;

// As Prometheus reads the histogram: the bucket "le" of a bound has the requests that took at most that time.
TEST(statistics, a_request_that_took_as_long_as_a_bound_is_in_its_bucket_and_a_longer_one_in_the_next) {
    for (std::size_t i = 0; i < model_statistics::bounds_us.size(); ++i) {
        const std::chrono::nanoseconds bound = std::chrono::microseconds(model_statistics::bounds_us[i]);
        EXPECT_EQ(model_statistics::bucket_of(bound - 1ns), i);
        EXPECT_EQ(model_statistics::bucket_of(bound), i);
        EXPECT_EQ(model_statistics::bucket_of(bound + 1ns), i + 1);
    }
    EXPECT_EQ(model_statistics::bucket_of(0ns), 0u);
    EXPECT_EQ(model_statistics::bucket_of(24h), model_statistics::bounds_us.size());
}

}  // namespace
}  // namespace sluice::serve::statistics_tests
