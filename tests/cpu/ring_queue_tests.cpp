// SPDX-License-Identifier: Apache-2.0
#include "cpu/ring_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace sluice::cpu {

TEST(ring_queue, is_first_in_first_out_while_it_grows_and_wraps) {
    ring_queue<int> queue;
    std::deque<int> reference;
    int next = 0;
    // The queue gets ahead of its pops at changing rates, so that it grows with its first item at any position.
    for (int round = 0; round < 200; ++round) {
        for (int i = 0; i < round % 13; ++i) queue.push(next), reference.push_back(next++);
        for (int i = 0; i < round % 11 && !reference.empty(); ++i) {
            ASSERT_EQ(queue.pop(), reference.front());
            reference.pop_front();
        }
        ASSERT_EQ(queue.size(), reference.size());
    }
    while (!reference.empty()) {
        ASSERT_EQ(queue.pop(), reference.front());
        reference.pop_front();
    }
    EXPECT_TRUE(queue.empty());
}

TEST(ring_queue, keeps_its_capacity_until_trim_which_keeps_what_its_items_need) {
    ring_queue<int> queue;
    for (int i = 0; i < 100'000; ++i) queue.push(i);
    for (int i = 0; i < 99'900; ++i) EXPECT_EQ(queue.pop(), i);
    EXPECT_GE(queue.capacity(), 100'000u);
    queue.trim();
    EXPECT_LT(queue.capacity(), 200u);
    for (int i = 99'900; i < 100'000; ++i) EXPECT_EQ(queue.pop(), i);
    queue.trim();
    EXPECT_EQ(queue.capacity(), 0u);
    queue.push(7);
    EXPECT_EQ(queue.pop(), 7);
}

TEST(ring_queue, holds_move_only_items) {
    ring_queue<std::unique_ptr<int>> queue;
    for (int i = 0; i < 100; ++i) queue.push(std::make_unique<int>(i));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(*queue.pop(), i);
}

TEST(ring_queue, keeps_no_reference_to_popped_items) {
    ring_queue<std::shared_ptr<int>> queue;
    const auto item = std::make_shared<int>(1);
    queue.push(item);
    queue.pop();
    EXPECT_EQ(item.use_count(), 1);
}

}  // namespace sluice::cpu
