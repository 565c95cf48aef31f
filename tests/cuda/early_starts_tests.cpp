// SPDX-License-Identifier: Apache-2.0
#include "cuda/early_starts.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

namespace sluice::cuda::early_starts_tests {
namespace {

// Two would be a kernel that is lost: the graph's node is one kernel.
TEST(left_kernel, is_the_only_one_of_its_call) {
    left_kernel left([](std::size_t) { return true; });
    EXPECT_EQ(left.kernel(), nullptr);
    int closure = 7;
    launch_command command;
    command.closure = &closure;
    command.closure_bytes = sizeof(closure);
    auto* const kernel = reinterpret_cast<CUfunc_st*>(&closure);  // is not called
    left.keep(kernel, command);
    closure = 8;
    EXPECT_THROW(left.keep(kernel, command), std::logic_error);
    EXPECT_EQ(left.kernel(), kernel);
    int kept = 0;
    ASSERT_EQ(left.command().closure_bytes, sizeof(kept));
    std::memcpy(&kept, left.command().closure, sizeof(kept));
    EXPECT_EQ(kept, 7);
}

}  // namespace
}  // namespace sluice::cuda::early_starts_tests
