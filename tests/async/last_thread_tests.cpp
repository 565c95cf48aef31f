// SPDX-License-Identifier: Apache-2.0
// Waits on the threads of an executor for tasks that it runs, and an executor whose last owner is one of its own
// coroutines: an error or a result, never a hang or the end of the program.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <set>
#include <thread>

#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/base/error.hpp"

namespace sluice::last_thread_tests {
namespace {

using namespace std::chrono_literals;

task<int> one() { co_return 1; }
task<int> one_on(executor& where) {
    co_await resume_on(where);
    co_return 1;
}

template <typename Function>
errc refusal_of(Function&& f) {
    try {
        f();
    } catch (const error& refused) {
        return static_cast<errc>(refused.code().value());
    }
    return errc{};
}

TEST(last_thread, of_a_pool_cannot_wait_for_a_task_of_that_pool) {
    thread_pool pool(1);
    auto body = [&]() -> task<errc> {
        auto inner = spawn(one(), pool);
        co_return refusal_of([&] { std::move(inner).get(); });
    };
    EXPECT_EQ(spawn(body(), pool).get(), errc::invalid_argument);
    auto waits = [&]() -> task<errc> {
        auto inner = spawn(one(), pool);
        co_return refusal_of([&] { inner.wait(); });
    };
    EXPECT_EQ(spawn(waits(), pool).get(), errc::invalid_argument);
}

TEST(last_thread, of_a_pool_can_wait_for_a_task_of_another_pool_and_for_one_that_has_ended) {
    thread_pool pool(1), other(1);
    auto body = [&]() -> task<int> {
        auto elsewhere = spawn(one(), other);
        co_return std::move(elsewhere).get();
    };
    EXPECT_EQ(spawn(body(), pool).get(), 1);
    auto ended = spawn(one(), pool);
    ended.wait();
    auto takes = [&]() -> task<int> { co_return std::move(ended).get(); };
    EXPECT_EQ(spawn(takes(), pool).get(), 1);
}

TEST(last_thread, all_but_the_last_free_thread_can_wait_for_tasks_of_their_pool) {
    thread_pool pool(3);
    std::latch all(3);
    std::atomic<int> refused{0}, ended{0};
    auto body = [&]() -> task<> {
        auto inner = spawn(one(), pool);
        all.arrive_and_wait();  // no thread is left that could have run the tasks
        try {
            ended += std::move(inner).get();
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::invalid_argument);
            ++refused;
        }
        co_return;
    };
    auto first = spawn(body(), pool), second = spawn(body(), pool), third = spawn(body(), pool);
    std::move(first).get();
    std::move(second).get();
    std::move(third).get();
    EXPECT_GE(ended, 1);
    EXPECT_EQ(ended + refused, 3);
}

TEST(last_thread, of_a_pool_cannot_wait_for_a_coroutine_that_would_continue_there) {
    thread_pool pool(1);
    auto body = [&]() -> task<errc> { co_return refusal_of([&] { sync_wait(one_on(pool)); }); };
    EXPECT_EQ(spawn(body(), pool).get(), errc::invalid_argument);
    auto spawns = [&]() -> task<errc> {
        auto waits = [&]() -> task<int> {
            auto inner = spawn(one(), pool);
            co_return co_await std::move(inner);
        };
        co_return refusal_of([&] { sync_wait(waits()); });
    };
    EXPECT_EQ(spawn(spawns(), pool).get(), errc::invalid_argument);
}

// One of two threads waits in sync_wait for a coroutine that needs the other one, which waits for a task: whichever
// comes second is refused.
TEST(last_thread, of_a_pool_cannot_wait_for_a_task_of_it_while_the_other_one_is_in_sync_wait_for_their_pool) {
    for (const auto ahead : {0ms, 20ms}) {
        thread_pool pool(2);
        std::latch both(2);
        std::atomic<bool> waits{false};
        auto holds = [&]() -> task<errc> {  // the thread that the other one needs
            both.arrive_and_wait();
            while (!waits) std::this_thread::sleep_for(1ms);
            std::this_thread::sleep_for(ahead);
            auto inner = spawn(one(), pool);
            co_return refusal_of([&] { std::move(inner).get(); });
        };
        auto sleeps = [&]() -> task<errc> {
            both.arrive_and_wait();
            auto needs = [&]() -> task<int> {
                auto inner = spawn(one(), pool);
                waits = true;
                co_return co_await std::move(inner);
            };
            co_return refusal_of([&] { sync_wait(needs()); });
        };
        auto first = spawn(holds(), pool);
        auto second = spawn(sleeps(), pool);
        const std::set refused{std::move(first).get(), std::move(second).get()};
        EXPECT_EQ(refused, (std::set{errc{}, errc::invalid_argument}));
    }
}

// As long as the coroutine has not ended: it may need the pool again, as it does here.
TEST(last_thread, of_a_pool_cannot_wait_for_a_task_of_it_within_a_coroutine_of_a_sync_wait_there) {
    thread_pool pool(2);
    auto continues_there = [&]() -> task<errc> {
        co_await resume_on(pool);
        auto inner = spawn(one(), pool);
        co_return refusal_of([&] { std::move(inner).get(); });
    };
    auto waits = [&]() -> task<errc> { co_return sync_wait(continues_there()); };
    EXPECT_EQ(spawn(waits(), pool).get(), errc::invalid_argument);
}

TEST(last_thread, all_but_the_last_free_thread_can_be_in_sync_wait_for_their_pool) {
    for (int round = 0; round < 200; ++round) {
        thread_pool pool(3);
        std::latch all(3);
        std::atomic<int> refused{0}, ended{0};
        auto body = [&]() -> task<> {
            all.arrive_and_wait();  // no thread is left that could have run the coroutines
            try {
                ended += sync_wait(one_on(pool));
            } catch (const error& refusal) {
                EXPECT_EQ(refusal.code(), errc::invalid_argument);
                ++refused;
            }
            co_return;
        };
        auto first = spawn(body(), pool), second = spawn(body(), pool), third = spawn(body(), pool);
        std::move(first).get();
        std::move(second).get();
        std::move(third).get();
        EXPECT_GE(ended, 1);
        ASSERT_EQ(ended + refused, 3);
    }
}

// A thread counts once, and only while it waits for something of its executor.
TEST(last_thread, of_a_pool_beside_one_that_waits_for_others_may_wait_for_a_task_of_it) {
    thread_pool pool(2), other(1);
    std::latch both(2);
    std::atomic<bool> may_end{false};
    auto elsewhere = [&]() -> task<int> {
        while (!may_end) std::this_thread::sleep_for(1ms);
        co_return 1;
    };
    auto waits = [&]() -> task<int> {
        both.arrive_and_wait();
        auto needs = [&]() -> task<int> {
            auto inner = spawn(elsewhere(), other);
            co_return co_await std::move(inner);
        };
        co_return sync_wait(needs());
    };
    auto goes_on = [&]() -> task<errc> {
        both.arrive_and_wait();
        std::this_thread::sleep_for(20ms);  // the other thread sleeps by now
        auto inner = spawn(one(), pool);
        may_end = true;
        co_return refusal_of([&] { std::move(inner).get(); });
    };
    auto first = spawn(waits(), pool);
    auto second = spawn(goes_on(), pool);
    EXPECT_EQ(std::move(second).get(), errc{});
    EXPECT_EQ(std::move(first).get(), 1);
    auto twice = [&]() -> task<int> {
        auto a = spawn(one(), pool), b = spawn(one(), pool);
        auto needs = [&]() -> task<int> {
            const int first_one = co_await std::move(a);
            co_return first_one + co_await std::move(b);
        };
        co_return sync_wait(needs());
    };
    EXPECT_EQ(spawn(twice(), pool).get(), 2);
}

TEST(last_thread, of_a_pool_that_has_just_begun_is_not_the_last_one_where_it_has_two) {
    for (int round = 0; round < 300; ++round) {
        thread_pool pool(2);
        auto body = [&]() -> task<int> {
            auto inner = spawn(one(), pool);
            co_return std::move(inner).get();
        };
        ASSERT_EQ(spawn(body(), pool).get(), 1) << "round " << round;
    }
}

TEST(last_thread, in_a_run_loop_another_one_that_waits_there_is_free) {
    run_loop loop;
    std::latch both(2);
    std::jthread first([&] { loop.run(); }), second([&] { loop.run(); });
    auto arrive = [&]() -> task<> {
        both.arrive_and_wait();
        co_return;
    };
    auto a = spawn(arrive(), loop), b = spawn(arrive(), loop);  // each thread is in the loop
    std::move(a).get();
    std::move(b).get();
    auto body = [&]() -> task<int> {
        auto inner = spawn(one(), loop);
        co_return std::move(inner).get();
    };
    EXPECT_EQ(spawn(body(), loop).get(), 1);
    loop.finish();
}

TEST(last_thread, of_a_pool_that_a_thread_of_it_destroys_may_wait_for_what_it_posts) {
    auto pool = std::make_unique<thread_pool>(2);
    thread_pool& same = *pool;
    std::latch both(2), is_closing(1);
    auto destroys = [&]() -> task<> {
        both.arrive_and_wait();
        is_closing.count_down();
        pool.reset();
        co_return;
    };
    auto waits = [&]() -> task<int> {
        both.arrive_and_wait();
        is_closing.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the other thread waits for this one by now
        auto inner = spawn(one(), same);
        co_return std::move(inner).get();
    };
    auto closing = spawn(destroys(), same);
    auto waiting = spawn(waits(), same);
    EXPECT_EQ(std::move(waiting).get(), 1);
    std::move(closing).get();
}

TEST(last_thread, of_a_run_loop_cannot_wait_for_a_task_of_that_loop) {
    run_loop loop;
    auto body = [&]() -> task<errc> {
        auto inner = spawn(one(), loop);
        co_return refusal_of([&] { std::move(inner).get(); });
    };
    auto outer = spawn(body(), loop);
    loop.run_pending();
    EXPECT_EQ(std::move(outer).get(), errc::invalid_argument);
    loop.run_pending();
}

task<> last_owner(std::shared_ptr<thread_pool> pool) {
    co_await resume_on(*pool);
    std::this_thread::sleep_for(5ms);  // the other owner has gone
}

TEST(last_thread, a_coroutine_on_a_pool_may_be_its_last_owner) {
    for (const std::size_t threads : {1u, 2u, 4u}) {
        for (int i = 0; i < 20; ++i) {
            auto pool = std::make_shared<thread_pool>(threads);
            const std::weak_ptr<thread_pool> seen = pool;
            auto running = spawn(last_owner(pool), *pool);
            pool.reset();
            std::move(running).get();
            while (!seen.expired()) std::this_thread::yield();
        }
    }
}

TEST(last_thread, a_pool_that_ends_on_its_own_thread_runs_what_was_posted) {
    std::atomic<int> ran{0};
    auto counts = [&]() -> task<> {
        ++ran;
        co_return;
    };
    for (const std::size_t threads : {1u, 3u}) {
        ran = 0;
        auto pool = std::make_shared<thread_pool>(threads);
        auto owns = [](std::shared_ptr<thread_pool>& from, auto make) -> task<> {
            std::shared_ptr<thread_pool> mine = std::move(from);
            for (int i = 0; i < 100; ++i) static_cast<void>(spawn(make(), *mine));
            mine.reset();
            co_return;
        };
        std::move(spawn(owns(pool, counts), *pool)).get();
        EXPECT_EQ(ran, 100);
    }
}

TEST(last_thread, of_a_run_loop_inside_a_sync_wait_does_not_wait_for_what_its_items_start) {
    run_loop loop;
    auto twice = [&]() -> task<int> {
        co_await resume_on(loop);
        co_await resume_on(loop);
        co_return 1;
    };
    auto other = spawn(twice(), loop);
    auto drives = [&]() -> task<> {
        while (loop.run_pending() != 0) {
        }
        co_return;
    };
    sync_wait(drives());
    EXPECT_EQ(std::move(other).get(), 1);
}

}  // namespace
}  // namespace sluice::last_thread_tests
