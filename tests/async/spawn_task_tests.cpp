// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/spawn_task.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"

namespace sluice::spawn_task_tests {
namespace {

using namespace std::chrono_literals;
using test::counted;
using test::gate;
using test::value_after;
using test::value_now;

static_assert(awaitable<spawned<int>> && !awaitable<spawned<int>&>);
static_assert(std::is_nothrow_move_constructible_v<spawned<>> && !std::is_copy_constructible_v<spawned<>>);

template <typename T>
void drop(spawned<T> result) {
    EXPECT_TRUE(result.valid());
}

TEST(spawn_task, starts_on_the_executor_without_being_awaited) {
    run_loop loop;
    bool ran = false;
    auto body = [&]() -> task<> {
        ran = true;
        co_return;
    };
    auto result = spawn(body(), loop);
    EXPECT_FALSE(ran || result.is_ready());
    loop.run_pending();
    EXPECT_TRUE(ran && result.is_ready());
    std::move(result).get();
}

TEST(spawn_task, runs_here_up_to_its_first_suspension_on_an_inline_executor) {
    inline_executor here;
    gate through;
    auto result = spawn(value_after(through, 3), here);
    EXPECT_FALSE(result.is_ready());
    through.open();
    EXPECT_TRUE(result.is_ready());
    EXPECT_EQ(std::move(result).get(), 3);
}

TEST(spawn_task, get_blocks_until_the_task_has_ended) {
    thread_pool pool(1);
    std::binary_semaphore go(0);
    auto body = [&]() -> task<std::unique_ptr<int>> {
        go.acquire();
        co_return std::make_unique<int>(9);
    };
    auto result = spawn(body(), pool);
    EXPECT_FALSE(result.is_ready());
    go.release();
    EXPECT_EQ(*std::move(result).get(), 9);
}

TEST(spawn_task, is_waited_for_in_every_way_and_keeps_its_result) {
    thread_pool pool(1);
    std::binary_semaphore go(0);
    auto body = [&]() -> task<int> {
        go.acquire();
        co_return 7;
    };
    for (const std::optional<wait_mode> mode : {std::optional<wait_mode>(), std::optional(wait_mode::spin),
                                                std::optional(wait_mode::yield), std::optional(wait_mode::block)}) {
        auto result = spawn(body(), pool);
        EXPECT_FALSE(result.wait_for(1us));
        EXPECT_FALSE(result.wait_for(std::chrono::hours::min()));
        EXPECT_FALSE(result.wait_until(std::chrono::steady_clock::now()));
        std::jthread opens([&] { go.release(); });
        result.wait(mode);
        EXPECT_TRUE(result.is_ready() && result.wait_for(0s) && result.valid());
        EXPECT_EQ(std::move(result).get(mode), 7);
    }
}

TEST(spawn_task, several_threads_may_wait_for_it_without_a_time_limit) {
    thread_pool pool(1);
    std::binary_semaphore go(0);
    auto body = [&]() -> task<> {
        go.acquire();
        co_return;
    };
    const auto result = spawn(body(), pool);
    std::atomic<int> ended = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i) threads.emplace_back([&] { ended += result.wait_for(std::chrono::hours::max()); });
        go.release();
    }
    EXPECT_EQ(ended, 3);
}

TEST(spawn_task, awaited_elsewhere_gives_its_result_there) {
    thread_pool pool(1), other(1);
    std::binary_semaphore go(0);
    auto body = [&]() -> task<std::thread::id> {
        go.acquire();
        co_return std::this_thread::get_id();
    };
    auto waits = [&]() -> task<bool> {
        auto inner = spawn(body(), pool);
        auto elsewhere = std::move(inner).resume_on(other);
        std::jthread opens([&] { go.release(); });
        const auto ended_on = co_await std::move(elsewhere);
        co_return ended_on != std::this_thread::get_id();
    };
    auto outer = waits();
    EXPECT_TRUE(sync_wait(std::move(outer)));
}

TEST(spawn_task, gives_references_and_nothing) {
    thread_pool pool(1);
    int value = 0;
    auto reference = [&]() -> task<int&> { co_return value; };
    auto nothing = [&]() -> task<> {
        value = 1;
        co_return;
    };
    EXPECT_EQ(&spawn(reference(), pool).get(), &value);
    spawn(nothing(), pool).get();
    EXPECT_EQ(value, 1);
}

TEST(spawn_task, gives_the_exception_of_the_task) {
    thread_pool pool(1);
    auto fails = []() -> task<int> {
        throw std::runtime_error("spawned");
        co_return 1;
    };
    auto result = spawn(fails(), pool);
    EXPECT_THROW(std::move(result).get(), std::runtime_error);
}

TEST(spawn_task, gives_its_result_once) {
    inline_executor here;
    auto result = spawn(value_now(1), here);
    EXPECT_EQ(std::move(result).get(), 1);
    EXPECT_FALSE(result.valid());
    EXPECT_THROW(std::move(result).get(), std::logic_error);
    EXPECT_THROW(result.wait(), std::logic_error);
    EXPECT_THROW(result.wait_for(1us), std::logic_error);
    EXPECT_THROW(result.wait_until(std::chrono::steady_clock::now()), std::logic_error);
    EXPECT_THROW(static_cast<void>(result.is_ready()), std::logic_error);
    EXPECT_THROW(static_cast<void>(std::move(result).resume_on(here)), std::logic_error);
}

TEST(spawn_task, of_a_task_that_was_awaited_fails_in_its_result) {
    inline_executor here;
    auto once = value_now(1);
    sync_wait(std::move(once));
    auto result = spawn(std::move(once), here);
    EXPECT_THROW(std::move(result).get(), std::logic_error);
}

TEST(spawn_task, an_awaiting_coroutine_continues_where_the_task_ends) {
    thread_pool pool(1), other(1);
    std::binary_semaphore go(0);
    auto body = [&]() -> task<std::thread::id> {
        go.acquire();
        co_return std::this_thread::get_id();
    };
    auto waits = [&]() -> task<bool> {
        auto inner = spawn(body(), pool);
        auto release = [&]() -> task<> {
            go.release();
            co_return;
        };
        auto key = spawn(release(), other);
        const auto ended_on = co_await std::move(inner);
        co_await std::move(key);
        co_return ended_on != std::thread::id();
    };
    EXPECT_TRUE(sync_wait(waits()));
}

TEST(spawn_task, awaited_after_its_end_does_not_suspend) {
    inline_executor here;
    auto waits = [&]() -> task<int> {
        int sum = 0;
        for (int i = 0; i < 100'000; ++i) {
            auto inner = spawn(value_now(1), here);
            sum += co_await std::move(inner);
        }
        co_return sum;
    };
    EXPECT_EQ(sync_wait(waits()), 100'000);
}

TEST(spawn_task, dropped_before_it_starts_runs_all_the_same) {
    run_loop loop;
    int alive = 0;
    bool ran = false;
    auto body = [&](counted) -> task<counted> {
        ran = true;
        co_return counted(alive);
    };
    drop(spawn(body(counted(alive)), loop));
    EXPECT_FALSE(ran);
    EXPECT_GT(alive, 0);
    loop.run_pending();
    EXPECT_TRUE(ran);
    EXPECT_EQ(alive, 0);
}

TEST(spawn_task, dropped_while_suspended_continues_and_its_result_is_dropped) {
    inline_executor here;
    int alive = 0;
    gate through;
    auto body = [&]() -> task<counted> {
        co_await through;
        co_return counted(alive);
    };
    drop(spawn(body(), here));
    EXPECT_EQ(alive, 0);
    through.open();
    EXPECT_EQ(alive, 0);
}

TEST(spawn_task, dropped_while_suspended_drops_its_exception) {
    inline_executor here;
    gate through;
    auto body = [&]() -> task<> {
        co_await through;
        throw std::runtime_error("no waiter receives this");
    };
    drop(spawn(body(), here));
    through.open();
}

TEST(spawn_task, dropped_after_its_end_drops_its_result) {
    inline_executor here;
    int alive = 0;
    auto body = [&]() -> task<counted> { co_return counted(alive); };
    {
        auto result = spawn(body(), here);
        EXPECT_TRUE(result.is_ready());
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

TEST(spawn_task, dropped_at_any_moment_leaks_nothing) {
    std::atomic<int> ended = 0;
    auto body = [&](executor& pool, int hops) -> task<std::unique_ptr<int>> {
        for (int i = 0; i < hops; ++i) co_await resume_on(pool);
        ++ended;
        co_return std::make_unique<int>(hops);
    };
    {
        thread_pool pool(3);
        for (int i = 0; i < 2000; ++i) drop(spawn(body(pool, i % 5), pool));
    }
    EXPECT_EQ(ended, 2000);
}

TEST(spawn_task, results_arrive_whichever_thread_is_faster) {
    thread_pool pool(3);
    auto body = [&](int number) -> task<int> {
        if (number % 2) co_await resume_on(pool);
        co_return number;
    };
    auto sum_up = [&]() -> task<long> {
        long sum = 0;
        for (int i = 0; i < 5000; ++i) {
            auto one = spawn(body(i), pool);
            sum += co_await std::move(one);
        }
        co_return sum;
    };
    EXPECT_EQ(sync_wait(sum_up()), 4999L * 5000 / 2);

    long sum = 0;
    for (int i = 0; i < 5000; ++i) sum += spawn(body(i), pool).get();
    EXPECT_EQ(sum, 4999L * 5000 / 2);
}

}  // namespace
}  // namespace sluice::spawn_task_tests
