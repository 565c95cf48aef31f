// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/task.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/sync_wait.hpp"

namespace sluice::task_tests {
namespace {

using test::gate;
using test::value_after;
using test::value_now;

static_assert(awaitable<task<int>> && !awaitable<task<int>&> && !awaitable<const task<int>&>);
static_assert(std::is_nothrow_move_constructible_v<task<>> && !std::is_copy_constructible_v<task<>>);
static_assert(std::same_as<await_result_t<task<int&>>, int&> && std::same_as<await_result_t<task<>>, void>);

task<int&> pick(std::vector<int>& from, std::size_t index) { co_return from.at(index); }

task<int> fail_with(std::string what) {
    if (!what.empty()) throw std::runtime_error(what);
    co_return 0;
}

task<> set(bool& done) {
    done = true;
    co_return;
}

TEST(task, gives_its_value) { EXPECT_EQ(sync_wait(value_now(42)), 42); }

TEST(task, of_nothing_runs_to_its_end) {
    bool done = false;
    sync_wait(set(done));
    EXPECT_TRUE(done);
}

TEST(task, starts_only_when_it_is_awaited) {
    bool done = false;
    auto lazy = set(done);
    EXPECT_FALSE(done);
    sync_wait(std::move(lazy));
    EXPECT_TRUE(done);
}

TEST(task, gives_the_very_object_that_its_reference_refers_to) {
    std::vector<int> values{1, 2, 3};
    int& second = sync_wait(pick(values, 1));
    EXPECT_EQ(&second, &values[1]);
}

TEST(task, gives_what_can_only_be_moved) {
    const auto owner = sync_wait(value_now(std::make_unique<int>(7)));
    EXPECT_EQ(*owner, 7);
}

TEST(task, gives_values_without_assignment_and_default_constructor) {
    class fixed {
    public:
        explicit fixed(int n) : value(n) {}
        const int value;
    };
    auto make = []() -> task<fixed> { co_return fixed(5); };
    EXPECT_EQ(sync_wait(make()).value, 5);
}

TEST(task, converts_what_is_returned) {
    auto make = []() -> task<std::string> { co_return "text"; };
    EXPECT_EQ(sync_wait(make()), "text");
}

TEST(task, of_a_reference_passes_exceptions_on) {
    std::vector<int> none;
    EXPECT_THROW(sync_wait(pick(none, 0)), std::out_of_range);
}

TEST(task, passes_exceptions_to_its_awaiter) {
    auto outer = []() -> task<std::string> {
        try {
            co_await fail_with("lost");
        } catch (const std::runtime_error& failure) {
            co_return failure.what();
        }
        co_return "nothing";
    };
    EXPECT_EQ(sync_wait(outer()), "lost");
}

TEST(task, passes_exceptions_through_tasks_that_do_not_catch_them) {
    auto middle = []() -> task<int> { co_return co_await fail_with("deep") + 1; };
    auto outer = [&]() -> task<int> { co_return co_await middle() + 1; };
    EXPECT_THROW(sync_wait(outer()), std::runtime_error);
}

TEST(task, passes_on_what_the_construction_of_its_value_throws) {
    class refuses {
    public:
        refuses(int) { throw std::domain_error("no such value"); }
    };
    auto make = []() -> task<refuses> { co_return 1; };
    EXPECT_THROW(sync_wait(make()), std::domain_error);
}

TEST(task, that_was_awaited_is_empty_and_cannot_be_awaited_again) {
    auto once = value_now(1);
    EXPECT_TRUE(once.valid());
    EXPECT_EQ(sync_wait(std::move(once)), 1);
    EXPECT_FALSE(once.valid());
    EXPECT_THROW(sync_wait(std::move(once)), std::logic_error);
}

TEST(task, may_be_assigned_another_task) {
    auto which = value_now(1);
    which = value_now(2);
    EXPECT_EQ(sync_wait(std::move(which)), 2);
}

TEST(task, continues_where_what_it_awaits_is_completed) {
    gate middle;
    std::vector<int> order;
    auto inner = [&]() -> task<int> {
        order.push_back(1);
        co_await middle;
        order.push_back(3);
        co_return 4;
    };
    auto outer = [&]() -> task<> { order.push_back(co_await inner()); };
    auto chain = detail::make_root(outer());
    detail::blocking_owner owner;
    chain.start(owner);
    order.push_back(2);
    middle.open();
    EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
    chain.take();
}

TEST(task, million_awaited_in_a_loop_that_end_at_once_need_no_stack) {
    auto sum = []() -> task<long> {
        long total = 0;
        for (long i = 0; i < 1'000'000; ++i) total += co_await value_now(1L);
        co_return total;
    };
    EXPECT_EQ(sync_wait(sum()), 1'000'000);
}

TEST(task, hundred_thousand_that_fail_at_once_need_no_stack) {
    auto count = []() -> task<long> {
        long failures = 0;
        for (long i = 0; i < 100'000; ++i) {
            try {
                co_await fail_with("again");
            } catch (const std::runtime_error&) {
                ++failures;
            }
        }
        co_return failures;
    };
    EXPECT_EQ(sync_wait(count()), 100'000);
}

TEST(task, million_resumed_one_after_the_other_need_no_stack) {
    // Each is suspended and resumed from outside: the loop continues inside the resumer, and must return to it.
    std::vector<std::unique_ptr<gate>> gates;
    auto through_all = [&]() -> task<long> {
        long passed = 0;
        while (passed < 1'000'000) {
            gates.clear();
            gates.push_back(std::make_unique<gate>());
            passed += co_await value_after(*gates.back(), 1L);
        }
        co_return passed;
    };
    auto chain = detail::make_root(through_all());
    detail::blocking_owner owner;
    chain.start(owner);
    for (long opened = 0; opened < 1'000'000; ++opened) {
        const auto next = std::move(gates.back());
        gates.pop_back();
        next->open();
    }
    EXPECT_EQ(chain.take(), 1'000'000);
}

task<int> nested(int depth, gate& innermost) {
    if (depth == 0) {
        co_await innermost;
        co_return 0;
    }
    co_return co_await nested(depth - 1, innermost) + 1;
}

TEST(task, nested_two_thousand_deep_ends_at_once_or_later) {
    gate open;
    open.open();
    EXPECT_EQ(sync_wait(nested(2000, open)), 2000);

    gate closed;
    auto chain = detail::make_root(nested(2000, closed));
    detail::blocking_owner owner;
    chain.start(owner);
    closed.open();
    EXPECT_EQ(chain.take(), 2000);
}

}  // namespace
}  // namespace sluice::task_tests
