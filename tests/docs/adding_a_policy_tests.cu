// SPDX-License-Identifier: Apache-2.0
// The code in docs/adding_a_policy.md.
#include <gtest/gtest.h>

#include <vector>

#include "docs/by_thread.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs {

TEST(adding_a_policy, one_thread_gets_the_same_stream_each_time) {
    runtime machine;
    by_thread pool(machine.default_device(), 4);
    EXPECT_EQ(&pool.next().queue(), &pool.next().queue());
    const std::vector<float> numbers{1, 2};
    EXPECT_EQ(sync(upload(numbers).and_then(download), pool), numbers);
}

}  // namespace sluice::docs
