// SPDX-License-Identifier: Apache-2.0
// How often a polling loop reads the clock.
#include "runtime/clock_turns.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::detail::clock_turns_tests {
namespace {

constexpr int due_turns(clock_turns turns, int of) {
    int due = 0;
    for (int i = 0; i < of; ++i) due += turns.next() ? 1 : 0;
    return due;
}

}  // namespace

TEST(clock_turns, read_the_clock_in_the_first_turn_and_in_every_64th_after_it) {
    clock_turns turns;
    for (int turn = 0; turn < 1000; ++turn) EXPECT_EQ(turns.next(), turn % 64 == 0) << turn;
}

// In a constant expression an overflow does not compile.
TEST(clock_turns, continue_after_the_largest_count_of_an_int_and_of_an_unsigned) {
    static_assert(due_turns(clock_turns(std::numeric_limits<int>::max()), 640) == 10);
    static_assert(due_turns(clock_turns(std::numeric_limits<unsigned>::max()), 640) == 10);
}

}  // namespace sluice::detail::clock_turns_tests
