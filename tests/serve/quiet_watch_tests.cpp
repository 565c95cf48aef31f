// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/quiet_watch.hpp"

#include <gtest/gtest.h>

namespace sluice::serve::quiet_watch_tests {
namespace {

using namespace std::chrono_literals;

TEST(quiet_watch, says_once_that_nothing_has_happened_since) {
    quiet_watch quiet(10s);
    const quiet_watch::clock::time_point begin{};
    EXPECT_FALSE(quiet.is_over(0, begin + 100s));  // nothing has happened at all
    EXPECT_FALSE(quiet.is_over(1, begin + 101s));
    EXPECT_FALSE(quiet.is_over(1, begin + 110s));
    EXPECT_FALSE(quiet.is_over(2, begin + 110s));
    EXPECT_FALSE(quiet.is_over(2, begin + 119s));
    EXPECT_TRUE(quiet.is_over(2, begin + 120s));
    EXPECT_FALSE(quiet.is_over(2, begin + 200s));
    EXPECT_FALSE(quiet.is_over(3, begin + 201s));
    EXPECT_TRUE(quiet.is_over(3, begin + 211s));
}

TEST(quiet_watch, of_no_time_never_says_it) {
    quiet_watch never(0s);
    const quiet_watch::clock::time_point begin{};
    EXPECT_FALSE(never.is_over(1, begin));
    EXPECT_FALSE(never.is_over(1, begin + 1000s));
}

}  // namespace
}  // namespace sluice::serve::quiet_watch_tests
