// SPDX-License-Identifier: Apache-2.0
#include "cuda/kept_owners.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace sluice::cuda {
namespace {

struct counted : loaded_function {
    explicit counted(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { --alive_; }

private:
    std::atomic<int>& alive_;
};

class kept_owner : public ::testing::Test {
protected:
    std::shared_ptr<counted> made() { return std::make_shared<counted>(alive); }

    std::atomic<int> alive = 0;
    kept_owners all;
};

}  // namespace

TEST_F(kept_owner, lives_until_its_command_has_passed) {
    all.keep(std::shared_ptr<const void>(made()), {0, 3});
    all.drop(2);
    EXPECT_EQ(alive, 1);
    all.drop(3);
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, that_is_kept_again_lives_longer) {
    auto first = made(), second = made();
    all.keep(std::shared_ptr<const void>(first), {0, 1});
    all.keep(std::shared_ptr<const void>(second), {0, 2});
    all.keep(std::shared_ptr<const void>(first), {0, 3});
    first = second = nullptr;
    all.drop(2);
    EXPECT_EQ(alive, 2);  // the first is listed first
    all.drop(3);
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, may_be_a_function) {
    auto function = made();
    all.keep_function(*function, {0, 1});
    all.keep_function(*function, {0, 2});
    function = nullptr;
    all.drop(1);
    EXPECT_EQ(alive, 1);
    all.drop(2);
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, may_be_many_functions_in_turn) {
    std::array functions{made(), made(), made()};
    for (ticket number = 1; number <= 30; ++number) all.keep_function(*functions[number % 3], {0, number});
    functions = {};
    all.drop(27);
    EXPECT_EQ(alive, 3);
    all.drop(29);
    EXPECT_EQ(alive, 1);
    all.drop(30);
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, that_is_a_function_may_be_dropped_and_kept_again) {
    auto function = made();
    all.keep_function(*function, {0, 1});
    all.drop(1);
    EXPECT_EQ(function.use_count(), 1);
    all.keep_function(*function, {0, 2});
    EXPECT_EQ(function.use_count(), 2);
    function = nullptr;
    EXPECT_EQ(alive, 1);
    all.drop_all();
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, makes_room_for_the_next_one) {
    for (ticket number = 1; number <= 30; ++number) {
        all.keep(std::shared_ptr<const void>(made()), {number - 1, number});
        EXPECT_EQ(alive, 1) << number;
    }
    for (ticket number = 31; number <= 60; ++number) {
        all.keep_graph(made(), {number - 1, number});
        EXPECT_EQ(alive, 1) << number;
    }
}

TEST_F(kept_owner, may_be_a_graph_that_is_updated) {
    std::shared_ptr<const void> owner = made(), graph = made(), later = made();
    all.keep_graph_owner(owner, {0, 1});
    all.keep_graph(graph, {0, 1});
    all.keep_graph_owner(owner, {0, 2});
    all.keep_graph(later, {0, 2});
    owner = graph = later = nullptr;
    all.drop(1);
    EXPECT_EQ(alive, 2);
    all.drop(2);
    EXPECT_EQ(alive, 0);
}

TEST_F(kept_owner, of_each_kind_is_dropped_with_all) {
    all.keep_function(*made(), {0, 1});
    all.keep(std::shared_ptr<const void>(made()), {0, 2});
    all.keep_function(*made(), {0, 3});
    all.keep_graph(made(), {0, 4});
    all.keep_graph_owner(made(), {0, 5});
    EXPECT_EQ(alive, 5);
    all.drop_all();
    EXPECT_EQ(alive, 0);
}

// One thread keeps, others drop what has passed: a function is never released too early.
TEST_F(kept_owner, is_safe_while_other_threads_drop) {
    constexpr ticket last = 50'000;
    std::atomic<ticket> passed = 0;
    std::atomic<bool> ends = false;
    std::array<std::thread, 2> droppers;
    for (std::thread& each : droppers) {
        each = std::thread([&] {
            while (!ends.load()) all.drop(passed.load());
        });
    }
    auto one = made(), other = made();
    for (ticket number = 1; number <= last; ++number) {
        counted& chosen = number % 97 < 90 ? *one : *other;
        all.keep_function(chosen, {0, number});
        EXPECT_GE(chosen.weak_from_this().use_count(), 2) << "at " << number;
        if (number % 3 == 0) passed.store(number);
    }
    ends.store(true);
    for (std::thread& each : droppers) each.join();
    one = other = nullptr;
    all.drop(last - 1);
    EXPECT_EQ(alive, 1);  // the one of the last ticket
    all.drop(last);
    EXPECT_EQ(alive, 0);
}

}  // namespace sluice::cuda
