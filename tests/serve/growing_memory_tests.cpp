// SPDX-License-Identifier: Apache-2.0
#include "serve/growing_memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "sluice/serve/refusal.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::growing_memory_tests {
namespace {

TEST(growing_memory, moves_seldom_where_the_budget_has_no_room_for_twice_as_much) {
    constexpr std::size_t numbers = 150'000, bytes = numbers * sizeof(float);
    const auto budget = std::make_shared<request_budget>(bytes);
    growing_memory memory;
    memory.begin(budget);
    int moves = 0;
    const std::byte* before = nullptr;
    for (std::size_t i = 0; i < numbers; ++i) {
        memory.add(sizeof(float));
        moves += memory.bytes().data() != before ? 1 : 0;
        before = memory.bytes().data();
    }
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_LT(moves, 60);
    EXPECT_LE(budget->bytes(), budget->most_bytes());
    memory.clear();
    EXPECT_EQ(budget->bytes(), 0U);
}

TEST(growing_memory, without_room_is_refused) {
    const auto budget = std::make_shared<request_budget>(1000);
    growing_memory memory;
    memory.begin(budget);
    memory.add(900);
    EXPECT_THROW(memory.add(200), refusal);
    EXPECT_EQ(memory.size(), 900U);
    memory.begin(budget);
    EXPECT_NO_THROW(memory.add(1000));
}

}  // namespace
}  // namespace sluice::serve::growing_memory_tests
