// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/completion_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace sluice::completion_list_tests {
namespace {

// Logs its ticket when it completes.
struct noting_waiter : completion_waiter {
    noting_waiter(ticket t, std::vector<ticket>& into) : completion_waiter{.upto = t, .complete = &note}, log(into) {}
    static void note(completion_waiter& waiter) noexcept {
        static_cast<noting_waiter&>(waiter).log.push_back(waiter.upto);
    }
    std::vector<ticket>& log;
};

class waiter_queue : public testing::Test {
protected:
    // Pushes these tickets, with a pop up to `pop_upto` after each; then pops all.
    static std::vector<ticket> through_the_queue(const std::vector<ticket>& tickets, ticket pop_upto) {
        std::vector<completion_waiter> waiters(tickets.size());
        std::vector<ticket> popped;
        detail::waiter_queue queue;
        const auto pop_all = [&](ticket upto) {
            while (completion_waiter* const waiter = queue.pop(upto)) popped.push_back(waiter->upto);
        };
        for (std::size_t i = 0; i < tickets.size(); ++i) {
            waiters[i].upto = tickets[i];
            queue.push(waiters[i]);
            pop_all(pop_upto);
        }
        pop_all(no_ticket);
        EXPECT_EQ(queue.earliest(), no_ticket);
        return popped;
    }
};

TEST_F(waiter_queue, returns_any_tickets_in_order) {
    std::mt19937 random(1);
    for (std::size_t count = 0; count < 200; ++count) {
        std::vector<ticket> tickets(count);
        for (ticket& t : tickets) t = random() % (1 + count);
        std::vector<ticket> sorted = tickets;
        std::ranges::sort(sorted);
        EXPECT_EQ(through_the_queue(tickets, 0).size(), count);
        std::erase(tickets, 0u), std::erase(sorted, 0u);
        EXPECT_EQ(through_the_queue(tickets, 0), sorted);
    }
}

TEST_F(waiter_queue, returns_only_waiters_that_are_due) {
    EXPECT_EQ(through_the_queue({5, 3, 9, 1, 4}, 4), (std::vector<ticket>{3, 1, 4, 5, 9}));
}

TEST_F(waiter_queue, keeps_the_order_of_equal_tickets_that_arrived_in_ascending_order) {
    std::vector<completion_waiter> waiters(4, completion_waiter{.upto = 7});
    detail::waiter_queue queue;
    for (completion_waiter& waiter : waiters) queue.push(waiter);
    for (completion_waiter& waiter : waiters) EXPECT_EQ(queue.pop(7), &waiter);
}

TEST(completion_list, completes_a_waiter_when_its_ticket_is_released) {
    completion_list list;
    std::vector<ticket> log;
    noting_waiter waiter(3, log);
    list.add(waiter);
    list.release(2);
    EXPECT_TRUE(log.empty());
    list.release(3);
    EXPECT_EQ(log, std::vector<ticket>{3});
    list.release(4);
    EXPECT_EQ(log, std::vector<ticket>{3});
}

TEST(completion_list, completes_a_waiter_immediately_when_its_ticket_was_released_before) {
    completion_list list;
    std::vector<ticket> log;
    list.release(3);
    noting_waiter nothing_to_wait_for(0, log), waiter(3, log);
    list.add(waiter);
    list.add(nothing_to_wait_for);
    EXPECT_EQ(log, (std::vector<ticket>{3, 0}));
}

TEST(completion_list, completes_in_the_order_of_tickets) {
    completion_list list;
    std::vector<ticket> log;
    std::vector<noting_waiter> waiters;
    for (const ticket t : {4, 1, 5, 9, 2, 6}) waiters.emplace_back(t, log);
    for (noting_waiter& waiter : waiters) list.add(waiter);
    list.release(5);
    EXPECT_EQ(log, (std::vector<ticket>{1, 2, 4, 5}));
    list.release(100);
    EXPECT_EQ(log, (std::vector<ticket>{1, 2, 4, 5, 6, 9}));
}

TEST(completion_list, keeps_the_highest_released_ticket) {
    completion_list list;
    std::vector<ticket> log;
    list.release(5);
    list.release(2);
    EXPECT_EQ(list.released(), 5u);
    noting_waiter waiter(4, log);
    list.add(waiter);
    EXPECT_EQ(log.size(), 1u);
}

TEST(completion_list, is_empty_exactly_when_there_are_no_waiters) {
    completion_list list;
    std::vector<ticket> log;
    noting_waiter first(1, log), second(2, log);
    EXPECT_TRUE(list.empty());
    list.add(second);
    EXPECT_FALSE(list.empty());
    list.add(first);
    list.release(1);
    EXPECT_FALSE(list.empty());
    list.release(2);
    EXPECT_TRUE(list.empty());
}

TEST(completion_list, release_of_no_ticket_completes_present_and_later_waiters) {
    completion_list list;
    std::vector<ticket> log;
    noting_waiter before(1'000'000, log), after(no_ticket - 1, log);
    list.add(before);
    list.release(no_ticket);
    list.add(after);
    EXPECT_EQ(log.size(), 2u);
    EXPECT_TRUE(list.empty());
}

// Adds its successor and releases the successor's ticket from within complete(), then destroys itself.
struct chain_link : completion_waiter {
    chain_link(completion_list& in, ticket t, ticket end, int& running, int& done)
        : completion_waiter{.upto = t, .complete = &go_on}, list(in), last(end), depth(running), completed(done) {}

    static void go_on(completion_waiter& waiter) noexcept {
        const std::unique_ptr<chain_link> self(static_cast<chain_link*>(&waiter));
        EXPECT_EQ(++self->depth, 1) << "calls of complete() nest";
        ++self->completed;
        if (self->upto < self->last) {
            const ticket next = self->upto + 1;
            self->list.add(*new chain_link(self->list, next, self->last, self->depth, self->completed));
            self->list.release(next);
        }
        --self->depth;
    }

    completion_list& list;
    ticket last;
    int& depth;
    int& completed;
};

TEST(completion_list, waiters_may_add_and_release_and_destroy_themselves_in_complete) {
    constexpr ticket links = 200'000;  // nested calls of that depth would overflow the stack
    completion_list list;
    int depth = 0;
    int completed = 0;
    list.add(*new chain_link(list, 1, links, depth, completed));
    list.release(1);
    EXPECT_EQ(completed, static_cast<int>(links));
    EXPECT_TRUE(list.empty());
}

// A waiter on the heap that counts its completion and destroys itself. An early or second completion shows as a wrong
// count (or as an error under the address sanitizer).
struct counting_waiter : completion_waiter {
    counting_waiter(ticket t, completion_list& in, std::atomic<std::uint64_t>& sum)
        : completion_waiter{.upto = t, .complete = &count}, list(in), completed(sum), written(t) {}
    static void count(completion_waiter& waiter) noexcept {
        const std::unique_ptr<counting_waiter> self(static_cast<counting_waiter*>(&waiter));
        EXPECT_GE(self->list.released(), self->written);
        self->completed.fetch_add(1, std::memory_order_relaxed);
    }
    completion_list& list;
    std::atomic<std::uint64_t>& completed;
    ticket written;  // the completing thread reads it: the thread sanitizer checks that the adder's write comes before
};

TEST(completion_list, loses_no_waiter_between_many_adders_and_releasers) {
    constexpr int adders = 3, releasers = 2;
    constexpr ticket waiters_each = 20'000;
    completion_list list;
    std::atomic<std::uint64_t> completed{0};
    std::atomic<ticket> submitted{0};
    std::atomic<int> adding{adders};
    std::barrier together(adders + releasers);
    {
        std::vector<std::jthread> threads;
        for (int a = 0; a < adders; ++a) {
            threads.emplace_back([&, a] {
                std::mt19937 random(static_cast<unsigned>(a));
                together.arrive_and_wait();
                for (ticket i = 0; i < waiters_each; ++i) {
                    // Near the ticket that is being released now, some before it and some out of order.
                    const ticket at = submitted.fetch_add(1) + random() % 32;
                    list.add(*new counting_waiter(at, list, completed));
                }
                --adding;
            });
        }
        for (int r = 0; r < releasers; ++r) {
            threads.emplace_back([&] {
                together.arrive_and_wait();
                while (adding > 0) list.release(submitted.load());
                list.release(adders * waiters_each + 32);
            });
        }
    }
    EXPECT_EQ(completed, adders * waiters_each);
    EXPECT_TRUE(list.empty());
}

TEST(completion_list, writes_before_a_release_are_visible_in_complete) {
    constexpr ticket last = 20'000;
    struct reading_waiter : completion_waiter {
        const std::vector<int>* results = nullptr;
        int read = 0;
    };
    completion_list list;
    std::vector<int> results(last + 1, 0);
    std::vector<reading_waiter> waiters(last + 1);
    {
        // Plain writes before release(), plain reads in complete(): the thread sanitizer sees whether they are ordered.
        std::jthread releaser([&] {
            for (ticket t = 1; t <= last; ++t) results[t] = static_cast<int>(t), list.release(t);
        });
        for (ticket t = 1; t <= last; ++t) {
            waiters[t].upto = t;
            waiters[t].results = &results;
            waiters[t].complete = [](completion_waiter& waiter) noexcept {
                auto& self = static_cast<reading_waiter&>(waiter);
                self.read = (*self.results)[self.upto];
            };
            list.add(waiters[t]);
        }
    }
    for (ticket t = 1; t <= last; ++t) ASSERT_EQ(waiters[t].read, static_cast<int>(t));
}

TEST(completion_list, the_cost_of_a_waiter_does_not_grow_with_their_number) {
    // With quadratic cost this would take hours.
    constexpr std::size_t count = 300'000;
    std::mt19937 random(1);
    for (const bool growing : {true, false}) {
        completion_list list;
        std::vector<ticket> log;
        std::vector<noting_waiter> waiters;
        waiters.reserve(count);
        log.reserve(count);
        for (std::size_t i = 1; i <= count; ++i) waiters.emplace_back(growing ? i : 1 + random() % count, log);
        for (noting_waiter& waiter : waiters) list.add(waiter);
        for (ticket t = 1; t <= count; ++t) list.release(t);
        EXPECT_EQ(log.size(), count);
        EXPECT_TRUE(std::ranges::is_sorted(log));
    }
}

}  // namespace
}  // namespace sluice::completion_list_tests
