// SPDX-License-Identifier: Apache-2.0
// A test that never ends, to check that it is named.
#include <gtest/gtest.h>

#include <future>

TEST(hanging, a_test_that_ends) {}

TEST(hanging, a_test_that_never_ends) {
    std::promise<void> never;
    never.get_future().wait();
}
