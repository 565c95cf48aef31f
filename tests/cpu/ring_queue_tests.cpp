#include "cpu/ring_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace sluice::cpu {

TEST(ring_queue, is_first_in_first_out_while_it_grows_and_wraps) {
    ring_queue<int> queue;
    std::deque<int> reference;
    int next = 0;
    // Pushes run ahead of pops at changing rates, so that it grows with its start anywhere.
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

TEST(ring_queue, holds_what_can_only_be_moved) {
    ring_queue<std::unique_ptr<int>> queue;
    for (int i = 0; i < 100; ++i) queue.push(std::make_unique<int>(i));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(*queue.pop(), i);
}

TEST(ring_queue, keeps_nothing_of_what_was_popped) {
    ring_queue<std::shared_ptr<int>> queue;
    const auto item = std::make_shared<int>(1);
    queue.push(item);
    queue.pop();
    EXPECT_EQ(item.use_count(), 1);
}

}  // namespace sluice::cpu
