// SPDX-License-Identifier: Apache-2.0
// The heap that holds waiters of a ticket, timers, and streams that are ready: its order, and its cost in comparisons.
#include "sluice/base/detail/pairing_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <vector>

#include "sluice/runtime/detail/timer.hpp"
#include "support/million.hpp"

namespace sluice::detail::pairing_heap_tests {
namespace {

struct node {
    int key = 0;
    node* next_ = nullptr;
    node* child_ = nullptr;
    node* previous_ = nullptr;
};

std::size_t comparisons = 0;
struct lower_key {
    bool operator()(const node& a, const node& b) const {
        ++comparisons;
        return a.key < b.key;
    }
};
using heap = pairing_heap<node, lower_key>;

std::vector<int> pop_all(heap& from) {
    std::vector<int> keys;
    while (!from.empty()) keys.push_back(from.pop()->key);
    return keys;
}

work_item nothing([](work_item&) noexcept {});

}  // namespace

TEST(pairing_heap, returns_all_keys_in_order_also_after_removals) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        std::deque<node> nodes(300);
        std::vector<node*> inside;
        heap all;
        for (node& each : nodes) {
            each.key = static_cast<int>(random() % 100);
            all.push(each);
            inside.push_back(&each);
            if (random() % 4 == 0) std::erase(inside, all.pop());
            if (random() % 4 != 0 || inside.empty()) continue;
            node* const any = inside[random() % inside.size()];
            all.remove(*any);
            std::erase(inside, any);
        }
        std::vector<int> expected;
        for (const node* each : inside) expected.push_back(each->key);
        std::ranges::sort(expected);
        EXPECT_EQ(pop_all(all), expected);
    }
}

TEST(pairing_heap, push_costs_one_comparison_at_any_size) {
    for (const int step : {1, -1}) {
        std::deque<node> nodes(20'000);
        heap all;
        int key = 0;
        comparisons = 0;
        for (node& each : nodes) {
            each.key = key += step;
            all.push(each);
        }
        EXPECT_LT(comparisons, nodes.size());
    }
}

TEST(pairing_heap, push_and_remove_cost_a_logarithm) {
    std::mt19937 random(1);
    std::deque<node> nodes(20'000);
    heap all;
    comparisons = 0;
    for (node& each : nodes) {
        each.key = static_cast<int>(random());
        all.push(each);
    }
    for (std::size_t i = 0; i < nodes.size(); i += 2) all.remove(nodes[i]);
    EXPECT_EQ(pop_all(all).size(), nodes.size() / 2);
    EXPECT_LT(comparisons, 30 * nodes.size());
}

TEST(timers, come_out_in_the_order_of_their_time_and_then_of_insertion) {
    using namespace std::chrono_literals;
    const timer::clock::time_point start{};
    std::deque<timer> all;
    for (const auto after : {5s, 3s, 5s, 1s, 3s, 9s}) all.emplace_back(start + after, nothing);
    timer_queue list;
    for (timer& each : all) list.insert(each);
    EXPECT_TRUE(list.remove(all[1]));
    EXPECT_FALSE(list.remove(all[1]));
    EXPECT_EQ(list.next_due(), start + 1s);
    for (const std::size_t expected : {3u, 4u, 0u, 2u}) EXPECT_EQ(list.take_due(start + 6s), &all[expected]);
    EXPECT_EQ(list.take_due(start + 6s), nullptr);
    EXPECT_EQ(list.next_due(), start + 9s);
    EXPECT_FALSE(list.remove(all[0]));
    EXPECT_TRUE(list.remove(all[5]));
    EXPECT_TRUE(list.empty());
}

TEST(timers, a_million_timers_with_decreasing_deadlines_are_set_and_removed) {
    std::deque<timer> all;
    timer_queue list;
    for (int i = 0; i < test_support::million; ++i) {
        all.emplace_back(timer::clock::time_point(std::chrono::seconds(test_support::million - i)), nothing);
        list.insert(all.back());
    }
    EXPECT_EQ(list.next_due(), all.back().due());
    for (timer& each : all) EXPECT_TRUE(list.remove(each));
    EXPECT_TRUE(list.empty());
}

}  // namespace sluice::detail::pairing_heap_tests
