// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/when_any.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"

namespace sluice::when_any_tests {
namespace {

using test::counted;
using test::gate;
using test::pass;
using test::value_after;
using test::value_now;

task<int> fail_after(gate& through) {
    co_await through;
    throw std::runtime_error("failed");
}

task<int&> lend_after(gate& through, int& value) {
    co_await through;
    co_return value;
}

class when_any_test : public testing::Test {
protected:
    // Ends by itself once a gate is open.
    task<counted> make_after(gate& through) {
        co_await through;
        co_return counted(alive_);
    }

    template <typename T>
    spawned<T> start(task<T> body) {
        return spawn(std::move(body), here_);
    }

    int alive_ = 0;
    inline_executor here_;
    gate first_, second_, third_;
};

TEST_F(when_any_test, continues_as_soon_as_the_first_has_ended) {
    auto result = start(when_any(value_after(first_, 1), value_after(second_, std::string("two")), pass(third_)));
    EXPECT_FALSE(result.is_ready());
    second_.open();
    ASSERT_TRUE(result.is_ready());
    auto [index, value] = std::move(result).get();
    EXPECT_EQ(index, 1u);
    EXPECT_EQ(std::get<1>(value), "two");
    first_.open();
    third_.open();
}

TEST_F(when_any_test, distinguishes_alternatives_of_one_type) {
    auto result = start(when_any(value_after(first_, 1), value_after(second_, 2)));
    second_.open();
    auto [index, value] = std::move(result).get();
    EXPECT_EQ(index, 1u);
    EXPECT_EQ(value.index(), 1u);
    EXPECT_EQ(std::get<1>(value), 2);
    first_.open();
}

TEST_F(when_any_test, gives_placeholders_for_void_and_references) {
    int number = 0;
    auto result = start(when_any(pass(first_), lend_after(second_, number)));
    second_.open();
    auto taken = std::move(result).get();
    EXPECT_EQ(&std::get<1>(taken.value).get(), &number);
    static_assert(std::same_as<std::variant_alternative_t<0, decltype(taken.value)>, std::monostate>);
    first_.open();
}

TEST_F(when_any_test, gives_what_can_only_be_moved) {
    auto result = start(when_any(value_after(first_, std::make_unique<int>(4)), pass(second_)));
    first_.open();
    auto [index, value] = std::move(result).get();
    EXPECT_EQ(*std::get<0>(value), 4);
    second_.open();
}

TEST_F(when_any_test, throws_the_exception_of_the_first) {
    auto result = start(when_any(value_after(first_, 1), fail_after(second_)));
    second_.open();
    EXPECT_THROW(std::move(result).get(), std::runtime_error);
    first_.open();
}

TEST_F(when_any_test, drops_the_exceptions_of_the_others) {
    auto result = start(when_any(value_after(first_, 1), fail_after(second_)));
    first_.open();
    second_.open();
    EXPECT_EQ(std::move(result).get().index, 0u);
}

TEST_F(when_any_test, drops_each_of_the_other_results_when_it_arrives) {
    auto result = start(when_any(make_after(first_), make_after(second_), make_after(third_)));
    first_.open();
    EXPECT_EQ(alive_, 1);
    third_.open();
    EXPECT_EQ(alive_, 1);
    {
        auto taken = std::move(result).get();
        EXPECT_EQ(taken.index, 0u);
    }
    EXPECT_EQ(alive_, 0);
    second_.open();
    EXPECT_EQ(alive_, 0);
}

TEST_F(when_any_test, starts_all_even_when_an_early_one_ends_at_once) {
    bool last_started = false;
    auto last = [&]() -> task<> {
        last_started = true;
        co_await first_;
    };
    auto result = start(when_any(value_now(1), last()));
    EXPECT_TRUE(result.is_ready());
    EXPECT_TRUE(last_started);
    EXPECT_EQ(std::move(result).get().index, 0u);
    first_.open();
}

TEST_F(when_any_test, starts_nothing_before_it_is_awaited) {
    bool started = false;
    auto start = [&](counted) -> task<> {
        started = true;
        co_return;
    };
    {
        auto lazy = when_any(start(counted(alive_)), start(counted(alive_)));
        EXPECT_EQ(alive_, 2);
    }
    EXPECT_FALSE(started);
    EXPECT_EQ(alive_, 0);
}

TEST_F(when_any_test, takes_a_vector) {
    std::vector<task<int>> tasks;
    tasks.push_back(value_after(first_, 10));
    tasks.push_back(value_after(second_, 20));
    tasks.push_back(fail_after(third_));
    auto result = start(when_any(std::move(tasks)));
    second_.open();
    auto [index, value] = std::move(result).get();
    EXPECT_EQ(index, 1u);
    EXPECT_EQ(value, 20);
    third_.open();
    first_.open();
}

TEST_F(when_any_test, of_an_empty_vector_is_refused) {
    EXPECT_THROW(sync_wait(when_any(std::vector<task<int>>())), std::invalid_argument);
}

TEST_F(when_any_test, of_one_is_that_one) {
    auto taken = sync_wait(when_any(value_now(5)));
    EXPECT_EQ(taken.index, 0u);
    EXPECT_EQ(std::get<0>(taken.value), 5);
}

TEST_F(when_any_test, abandons_all_when_it_is_dropped_together_with_its_spawned_task) {
    {
        auto dropped = start(when_any(make_after(first_), make_after(second_)));
        EXPECT_FALSE(dropped.is_ready());
    }
    second_.open();
    first_.open();
    EXPECT_EQ(alive_, 0);
}

TEST_F(when_any_test, in_a_loop_that_is_complete_at_once_needs_no_stack) {
    auto loop = []() -> task<std::size_t> {
        std::size_t wins = 0;
        for (int i = 0; i < 100'000; ++i) {
            auto either = when_any(value_now(1), value_now(2));
            const auto taken = co_await std::move(either);
            wins += taken.index == 0;
        }
        co_return wins;
    };
    EXPECT_EQ(sync_wait(loop()), 100'000u);
}

TEST(when_any_on_threads, has_one_winner_and_leaks_nothing) {
    std::atomic<int> ended = 0;
    auto on = [&](executor& pool, int number) -> task<std::unique_ptr<int>> {
        co_await resume_on(pool);
        ++ended;
        co_return std::make_unique<int>(number);
    };
    {
        thread_pool pool(3);
        for (int round = 0; round < 500; ++round) {
            std::vector<task<std::unique_ptr<int>>> tasks;
            for (int i = 0; i < 6; ++i) tasks.push_back(on(pool, i));
            auto [index, value] = sync_wait(when_any(std::move(tasks)));
            EXPECT_EQ(*value, static_cast<int>(index));

            auto either = when_any(on(pool, 0), spawn(on(pool, 1), pool), resume_on(pool));
            const auto taken = sync_wait(std::move(either));
            EXPECT_EQ(taken.index, taken.value.index());
        }
    }
    EXPECT_EQ(ended, 500 * 8);
}

}  // namespace
}  // namespace sluice::when_any_tests
