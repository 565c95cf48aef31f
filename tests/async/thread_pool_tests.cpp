// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sluice/async/resume_on.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"

namespace sluice::thread_pool_tests {
namespace {

class count final : public work_item {
public:
    explicit count(std::atomic<int>& counter) : work_item(&add), counter_(&counter) {}

private:
    static void add(work_item& item) noexcept { ++*static_cast<count&>(item).counter_; }
    std::atomic<int>* counter_;
};

class meet final : public work_item {
public:
    explicit meet(std::latch& all) : work_item(&arrive), all_(&all) {}

private:
    static void arrive(work_item& item) noexcept { static_cast<meet&>(item).all_->arrive_and_wait(); }
    std::latch* all_;
};

TEST(thread_pool, without_threads_is_refused) { EXPECT_THROW(thread_pool(0), std::invalid_argument); }

TEST(thread_pool, with_a_negative_spinning_time_is_refused) {
    EXPECT_THROW(thread_pool(1, std::chrono::microseconds(-1)), std::invalid_argument);
}

// Items that arrive while threads spin, while they sleep, and while they change from one to the other.
TEST(thread_pool, runs_every_item_with_any_spinning_time) {
    for (const int look : {0, 1, 50, 2000}) {
        std::atomic<int> ran = 0;
        thread_pool pool(3, std::chrono::microseconds(look));
        for (int round = 1; round <= 300; ++round) {
            count first(ran), second(ran);
            pool.post(first);
            pool.post(second);
            while (ran != 2 * round) std::this_thread::yield();
        }
    }
}

TEST(thread_pool, without_work_ends) {
    const thread_pool pool(3);
    EXPECT_EQ(pool.size(), 3u);
}

TEST(thread_pool, runs_as_many_items_at_a_time_as_it_has_threads) {
    std::latch all(4);  // passes only when three items and this thread wait at the same time
    meet first(all), second(all), third(all);
    thread_pool pool(3);
    pool.post(first);
    pool.post(second);
    pool.post(third);
    all.arrive_and_wait();
}

TEST(thread_pool, has_run_all_that_was_posted_when_it_is_destroyed) {
    std::atomic<int> ran = 0;
    std::vector<std::unique_ptr<count>> items;
    for (int i = 0; i < 1000; ++i) items.push_back(std::make_unique<count>(ran));
    {
        thread_pool pool(2);
        for (const auto& each : items) pool.post(*each);
    }
    EXPECT_EQ(ran, 1000);
}

TEST(thread_pool, has_run_what_its_items_posted_when_it_is_destroyed) {
    std::atomic<int> ran = 0;
    auto hop = [&](executor& on) -> task<> {
        for (int i = 0; i < 100; ++i) {
            co_await resume_on(on);
            ++ran;
        }
    };
    {
        thread_pool pool(2);
        for (int i = 0; i < 10; ++i) static_cast<void>(spawn(hop(pool), pool));
    }
    EXPECT_EQ(ran, 1000);
}

TEST(thread_pool, takes_items_from_many_threads) {
    std::atomic<int> ran = 0;
    std::vector<std::vector<std::unique_ptr<count>>> items(8);
    for (auto& mine : items) {
        for (int i = 0; i < 1000; ++i) mine.push_back(std::make_unique<count>(ran));
    }
    {
        thread_pool pool(4);
        std::vector<std::thread> posters;
        for (const auto& mine : items) {
            posters.emplace_back([&mine, &pool] {
                for (const auto& each : mine) pool.post(*each);
            });
        }
        for (std::thread& each : posters) each.join();
    }
    EXPECT_EQ(ran, 8000);
}

TEST(thread_pool, may_be_destroyed_as_soon_as_a_task_on_it_has_ended) {
    for (int round = 0; round < 500; ++round) {
        thread_pool pool(1);
        auto move_there = [&]() -> task<int> {
            co_await resume_on(pool);
            co_return round;
        };
        EXPECT_EQ(sync_wait(move_there()), round);
    }
}

}  // namespace
}  // namespace sluice::thread_pool_tests
