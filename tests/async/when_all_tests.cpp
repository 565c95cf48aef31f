// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/when_all.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"

namespace sluice::when_all_tests {
namespace {

using test::counted;
using test::gate;
using test::pass;
using test::value_after;
using test::value_now;

task<int> fail_after(gate& through, std::string what) {
    co_await through;
    throw std::runtime_error(what);
}

task<int&> lend(int& value) { co_return value; }

std::string message_of(spawned<> failed) {
    try {
        std::move(failed).get();
    } catch (const std::runtime_error& failure) {
        return failure.what();
    }
    return "nothing was thrown";
}

TEST(when_all, gives_the_results_by_position) {
    auto three = when_all(value_now(1), value_now(std::string("two")), value_now(std::make_unique<int>(3)));
    auto [one, two, owner] = sync_wait(std::move(three));
    EXPECT_EQ(one, 1);
    EXPECT_EQ(two, "two");
    EXPECT_EQ(*owner, 3);
}

TEST(when_all, gives_placeholders_for_void_and_references) {
    gate open;
    open.open();
    int value = 0;
    auto both = when_all(pass(open), lend(value));
    auto [nothing, reference] = sync_wait(std::move(both));
    static_assert(std::same_as<decltype(nothing), std::monostate>);
    EXPECT_EQ(&reference.get(), &value);
}

TEST(when_all, of_nothing_is_complete) {
    EXPECT_EQ(sync_wait(when_all()), std::tuple());
    EXPECT_TRUE(sync_wait(when_all(std::vector<task<int>>())).empty());
}

TEST(when_all, takes_a_vector) {
    std::vector<task<int>> tasks;
    for (int i = 0; i < 100; ++i) tasks.push_back(value_now(i));
    const std::vector<int> values = sync_wait(when_all(std::move(tasks)));
    ASSERT_EQ(values.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
}

TEST(when_all, starts_nothing_before_it_is_awaited) {
    bool started = false;
    auto start = [&]() -> task<> {
        started = true;
        co_return;
    };
    auto lazy = when_all(start());
    EXPECT_FALSE(started);
    sync_wait(std::move(lazy));
    EXPECT_TRUE(started);
}

TEST(when_all, starts_all_and_continues_when_the_last_has_ended) {
    gate first, second, third;
    auto wait = [&]() -> task<int> {
        auto all = when_all(value_after(first, 1), value_after(second, 2), value_after(third, 3));
        auto [a, b, c] = co_await std::move(all);
        co_return a * 100 + b * 10 + c;
    };
    inline_executor here;
    auto result = spawn(wait(), here);
    second.open();
    third.open();
    EXPECT_FALSE(result.is_ready());
    first.open();
    EXPECT_TRUE(result.is_ready());
    EXPECT_EQ(std::move(result).get(), 123);
}

TEST(when_all, waits_for_the_others_when_one_fails_and_throws_the_first_by_position) {
    gate first, second, third;
    auto wait = [&]() -> task<> {
        auto all = when_all(value_after(first, 1), fail_after(second, "second"), fail_after(third, "third"));
        co_await std::move(all);
    };
    inline_executor here;
    auto result = spawn(wait(), here);
    third.open();
    second.open();
    EXPECT_FALSE(result.is_ready());
    first.open();
    EXPECT_TRUE(result.is_ready());
    EXPECT_EQ(message_of(std::move(result)), "second");
}

TEST(when_all, of_a_vector_throws_the_first_by_position) {
    std::vector<gate> gates(4);
    auto wait = [&]() -> task<> {
        std::vector<task<int>> tasks;
        tasks.push_back(value_after(gates[0], 0));
        for (std::size_t i = 1; i < gates.size(); ++i) tasks.push_back(fail_after(gates[i], std::to_string(i)));
        co_await when_all(std::move(tasks));
    };
    inline_executor here;
    auto result = spawn(wait(), here);
    for (const std::size_t next : {3, 1, 0, 2}) gates[next].open();
    EXPECT_EQ(message_of(std::move(result)), "1");
}

TEST(when_all, drops_the_other_results_when_one_throws) {
    int alive = 0;
    gate open;
    open.open();
    auto make = [&]() -> task<counted> { co_return counted(alive); };
    auto all = when_all(make(), fail_after(open, "lost"), make());
    EXPECT_THROW(sync_wait(std::move(all)), std::runtime_error);
    EXPECT_EQ(alive, 0);
}

TEST(when_all, dropped_before_it_is_awaited_drops_what_it_holds) {
    int alive = 0;
    auto hold = [](counted) -> task<> { co_return; };
    {
        auto lazy = when_all(hold(counted(alive)), hold(counted(alive)));
    }
    EXPECT_EQ(alive, 0);
}

TEST(when_all, takes_what_is_awaitable_in_any_way) {
    thread_pool pool(2);
    auto all = when_all(spawn(value_now(1), pool), resume_on(pool), value_now(2), when_all(value_now(3)));
    auto [one, moved, two, three] = sync_wait(std::move(all));
    EXPECT_EQ(one + two + std::get<0>(three), 6);
}

TEST(when_all, joins_what_ends_on_many_threads) {
    thread_pool pool(3);
    auto on_pool = [&](int number) -> task<std::unique_ptr<int>> {
        co_await resume_on(pool);
        co_return std::make_unique<int>(number);
    };
    for (int round = 0; round < 200; ++round) {
        std::vector<task<std::unique_ptr<int>>> tasks;
        for (int i = 0; i < 20; ++i) tasks.push_back(on_pool(i));
        int sum = 0;
        for (const auto& each : sync_wait(when_all(std::move(tasks)))) sum += *each;
        EXPECT_EQ(sum, 190);
    }
}

TEST(when_all, in_a_loop_that_is_complete_at_once_needs_no_stack) {
    auto loop = []() -> task<long> {
        long sum = 0;
        for (int i = 0; i < 100'000; ++i) {
            auto both = when_all(value_now(1), value_now(2));
            auto [one, two] = co_await std::move(both);
            sum += one + two;
        }
        co_return sum;
    };
    EXPECT_EQ(sync_wait(loop()), 300'000);
}

}  // namespace
}  // namespace sluice::when_all_tests
