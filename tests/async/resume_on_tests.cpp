// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/resume_on.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/async/when_all.hpp"

namespace sluice::resume_on_tests {
namespace {

TEST(resume_on, continues_on_a_thread_of_the_executor) {
    thread_pool pool(1);
    auto location = [&]() -> task<bool> {
        const auto before = std::this_thread::get_id();
        co_await resume_on(pool);
        co_return before != std::this_thread::get_id();
    };
    EXPECT_TRUE(sync_wait(location()));
}

TEST(resume_on, the_awaiting_coroutine_continues_there_too) {
    thread_pool pool(1);
    auto inner = [&]() -> task<std::thread::id> {
        co_await resume_on(pool);
        co_return std::this_thread::get_id();
    };
    auto outer = [&]() -> task<bool> {
        const std::thread::id ended_on = co_await inner();
        co_return ended_on == std::this_thread::get_id();
    };
    // The body may end before the thread that started it continues.
    for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(sync_wait(outer()));
}

TEST(resume_on, moves_back_and_forth) {
    thread_pool left(1), right(1);
    auto id_of = [](executor& on) -> task<std::thread::id> {
        co_await resume_on(on);
        co_return std::this_thread::get_id();
    };
    const auto left_id = sync_wait(id_of(left));
    const auto right_id = sync_wait(id_of(right));
    auto moves = [&]() -> task<int> {
        int right_places = 0;
        for (int i = 0; i < 1000; ++i) {
            co_await resume_on(left);
            right_places += std::this_thread::get_id() == left_id;
            co_await resume_on(right);
            right_places += std::this_thread::get_id() == right_id;
        }
        co_return right_places;
    };
    EXPECT_EQ(sync_wait(moves()), 2000);
}

TEST(resume_on, the_executor_it_runs_on_lets_others_go_first) {
    run_loop loop;
    std::vector<int> order;
    auto take_turns = [&](int number) -> task<> {
        for (int i = 0; i < 2; ++i) {
            order.push_back(number);
            co_await resume_on(loop);
        }
    };
    auto first = spawn(take_turns(1), loop);
    auto second = spawn(take_turns(2), loop);
    while (loop.run_pending() != 0) {
    }
    EXPECT_TRUE(first.is_ready() && second.is_ready());
    EXPECT_EQ(order, (std::vector{1, 2, 1, 2}));
}

TEST(resume_on, a_million_inline_need_no_stack) {
    inline_executor here;
    auto loop = [&]() -> task<int> {
        int count = 0;
        for (; count < 1'000'000; ++count) co_await resume_on(here);
        co_return count;
    };
    EXPECT_EQ(sync_wait(loop()), 1'000'000);
}

// Runs items inside post, but on another thread.
class elsewhere final : public executor {
public:
    void post(work_item& item) noexcept override {
        std::thread([&item] { item.run(); }).join();
    }
};

TEST(resume_on, an_executor_that_waits_for_its_own_thread_is_not_taken_for_an_inline_one) {
    elsewhere there;
    const auto here = std::this_thread::get_id();
    auto moves = [&]() -> task<bool> {
        co_await resume_on(there);
        const bool moved = std::this_thread::get_id() != here;
        co_await resume_on(there);
        co_return moved;
    };
    EXPECT_TRUE(sync_wait(moves()));
}

// Runs the queued items, and then the new one, inside post.
class after_the_queue final : public executor {
public:
    explicit after_the_queue(run_loop& queue) : queue_(&queue) {}
    void post(work_item& item) noexcept override {
        queue_->run_pending();
        item.run();
    }

private:
    run_loop* queue_;
};

TEST(resume_on, others_that_arrive_inside_post_are_resumed_too) {
    run_loop queue;
    after_the_queue target(queue);
    std::vector<int> order;
    auto queued = [&]() -> task<> {
        co_await resume_on(queue);
        order.push_back(1);
        co_await resume_on(target);
        order.push_back(2);
    };
    auto outer = [&]() -> task<> {
        co_await resume_on(target);
        order.push_back(3);
    };
    inline_executor here;
    auto first = spawn(queued(), here);
    sync_wait(outer());
    EXPECT_TRUE(first.is_ready());
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(resume_on, can_be_passed_to_combinators) {
    thread_pool left(1), right(1);
    auto both = when_all(resume_on(left), resume_on(right));
    sync_wait(std::move(both));
}

}  // namespace
}  // namespace sluice::resume_on_tests
