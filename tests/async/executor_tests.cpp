// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/executor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "sluice/async/detail/work_queue.hpp"
#include "sluice/async/run_loop.hpp"

namespace sluice::executor_tests {
namespace {

// Notes that it ran, and on which thread.
class note final : public work_item {
public:
    note(std::vector<int>& order, int number) : work_item(&write), order_(&order), number_(number) {}
    std::thread::id ran_on() const { return ran_on_; }

private:
    static void write(work_item& item) noexcept {
        auto& self = static_cast<note&>(item);
        self.order_->push_back(self.number_);
        self.ran_on_ = std::this_thread::get_id();
    }

    std::vector<int>* order_;
    int number_;
    std::thread::id ran_on_;
};

// Posts itself again until it has run a number of times.
class repeated final : public work_item {
public:
    repeated(executor& on, int times) : work_item(&again), on_(&on), left_(times) {}
    int left() const { return left_; }

private:
    static void again(work_item& item) noexcept {
        auto& self = static_cast<repeated&>(item);
        if (--self.left_ > 0) self.on_->post(self);
    }

    executor* on_;
    int left_;
};

class finishes final : public work_item {
public:
    explicit finishes(run_loop& loop) : work_item(&finish), loop_(&loop) {}

private:
    static void finish(work_item& item) noexcept { static_cast<finishes&>(item).loop_->finish(); }

    run_loop* loop_;
};

TEST(work_item, may_destroy_itself_when_it_runs) {
    class once final : public work_item {
    public:
        explicit once(bool& done) : work_item(&run_once), done_(&done) {}

    private:
        static void run_once(work_item& item) noexcept {
            const std::unique_ptr<once> self(&static_cast<once&>(item));
            *self->done_ = true;
        }
        bool* done_;
    };
    bool done = false;
    inline_executor here;
    here.post(*std::make_unique<once>(done).release());
    EXPECT_TRUE(done);
}

TEST(inline_executor, runs_inside_post_on_the_posting_thread) {
    std::vector<int> order;
    note first(order, 1);
    inline_executor here;
    here.post(first);
    EXPECT_EQ(order, std::vector{1});
    EXPECT_EQ(first.ran_on(), std::this_thread::get_id());
}

TEST(work_queue, gives_items_in_the_order_of_their_arrival) {
    std::vector<int> order;
    note first(order, 1), second(order, 2), third(order, 3);
    detail::work_queue queue;
    EXPECT_EQ(queue.pop(), nullptr);
    queue.push(first);
    queue.push(second);
    EXPECT_EQ(queue.pop(), &first);
    queue.push(third);
    queue.push(first);
    EXPECT_EQ(queue.pop(), &second);
    EXPECT_EQ(queue.pop(), &third);
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.pop(), &first);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop(), nullptr);
}

TEST(work_queue, is_empty_after_its_items_were_moved_away_and_can_be_used_again) {
    std::vector<int> order;
    note first(order, 1);
    detail::work_queue queue;
    queue.push(first);
    detail::work_queue taken(std::move(queue));
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(taken.pop(), &first);
    queue.push(first);
    EXPECT_EQ(queue.pop(), &first);
}

TEST(run_loop, runs_what_was_posted_in_order_on_the_thread_that_runs_it) {
    std::vector<int> order;
    note first(order, 1), second(order, 2);
    run_loop loop;
    loop.post(first);
    loop.post(second);
    loop.finish();
    EXPECT_TRUE(order.empty());
    std::thread([&] { loop.run(); }).join();
    EXPECT_EQ(order, (std::vector{1, 2}));
    EXPECT_NE(first.ran_on(), std::this_thread::get_id());
}

TEST(run_loop, waits_for_items_until_it_is_finished) {
    std::vector<int> order;
    note first(order, 1);
    run_loop loop;
    finishes last(loop);
    std::thread runner([&] { loop.run(); });
    loop.post(first);
    loop.post(last);
    runner.join();
    EXPECT_EQ(order, std::vector{1});
    EXPECT_FALSE(loop.run_one());
}

TEST(run_loop, runs_what_items_post_while_it_finishes) {
    run_loop loop;
    repeated item(loop, 100);
    loop.post(item);
    loop.finish();
    loop.run();
    EXPECT_EQ(item.left(), 0);
}

TEST(run_loop, run_pending_runs_only_what_is_queued) {
    run_loop loop;
    EXPECT_EQ(loop.run_pending(), 0u);
    std::vector<int> order;
    note other(order, 1);
    repeated item(loop, 2);
    loop.post(item);
    loop.post(other);
    EXPECT_EQ(loop.run_pending(), 2u);
    EXPECT_EQ(item.left(), 1);
    EXPECT_EQ(loop.run_pending(), 1u);
    EXPECT_EQ(item.left(), 0);
    EXPECT_EQ(loop.run_pending(), 0u);
}

TEST(run_loop, runs_one_item_at_a_time) {
    std::vector<int> order;
    note first(order, 1), second(order, 2);
    run_loop loop;
    loop.post(first);
    loop.post(second);
    EXPECT_TRUE(loop.run_one());
    EXPECT_EQ(order, std::vector{1});
    EXPECT_TRUE(loop.run_one());
    loop.finish();
    EXPECT_FALSE(loop.run_one());
}

}  // namespace
}  // namespace sluice::executor_tests
