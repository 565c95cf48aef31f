// SPDX-License-Identifier: Apache-2.0
#include "serve/piece_queue.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace sluice::serve::piece_queue_tests {
namespace {

using done = piece_queue::done;

constexpr std::size_t piece_bytes = 128 << 10;

TEST(piece_queue, a_turn_is_bounded_however_many_wait) {
    piece_queue queue;
    std::vector<int> called;
    for (int i = 0; i < 1000; ++i) {
        queue.add([&called, i] {
            called.push_back(i);
            return done{.is_last = false, .bytes = piece_bytes};
        });
    }
    queue.run_some();
    const std::size_t in_turn = called.size();
    EXPECT_GE(in_turn, 1U);
    EXPECT_LE(in_turn, piece_queue::most_in_turn / piece_bytes + 1);
    while (called.size() < 2000) queue.run_some();
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(called[static_cast<std::size_t>(i)], i % 1000);  // in line
}

TEST(piece_queue, each_has_one_piece_of_a_turn_and_the_last_one_ends_it) {
    piece_queue queue;
    std::vector<int> left{1, 3, 2};
    for (int& each : left) queue.add([&each] { return done{.is_last = --each == 0, .bytes = 1}; });
    queue.run_some();
    EXPECT_EQ(left, (std::vector<int>{0, 2, 1}));
    queue.run_some();
    queue.run_some();
    EXPECT_EQ(left, (std::vector<int>{0, 0, 0}));
    EXPECT_TRUE(queue.is_empty());
    queue.run_some();
    EXPECT_EQ(left, (std::vector<int>{0, 0, 0}));
}

TEST(piece_queue, a_piece_may_add_one) {
    piece_queue queue;
    int called = 0;
    queue.add([&] {
        queue.add([&] {
            ++called;
            return done{};
        });
        return done{};
    });
    queue.run_some();
    EXPECT_EQ(called, 0);
    queue.run_some();
    EXPECT_EQ(called, 1);
    EXPECT_TRUE(queue.is_empty());
}

TEST(piece_queue, what_need_not_wait_has_room_once_a_turn) {
    piece_queue queue;
    std::size_t pieces = 0;
    for (; queue.has_room(); ++pieces) queue.count(piece_bytes);
    EXPECT_LE(pieces, piece_queue::most_in_turn / piece_bytes);
    EXPECT_FALSE(queue.is_over());
    for (; !queue.is_over(); ++pieces) queue.count(0);  // short ones have an end too
    EXPECT_LE(pieces, 200U);
    queue.run_some();
    EXPECT_TRUE(queue.has_room());
}

}  // namespace
}  // namespace sluice::serve::piece_queue_tests
