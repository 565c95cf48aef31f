// SPDX-License-Identifier: Apache-2.0
// The protocol of completion_list under thousands of schedules, and the same schedules on lists with planted faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "sim/faulty_completion_list.hpp"
#include "sluice/runtime/detail/completion_list.hpp"
#include "sluice/sim/atomic.hpp"
#include "sluice/sim/interleaving.hpp"

namespace sluice::sim::completion_interleaving_tests {
namespace {

template <typename List>
struct waiter_fixture {
    struct waiter : completion_waiter {
        waiter_fixture* bench = nullptr;
        void (*then)(waiter_fixture&, const waiter&) noexcept = nullptr;  // run by complete()
        ticket wanted = 0;
        int completed = 0;
    };

    List list;
    std::array<waiter, 8> waiters;
    int completing = 0;

    void add(std::size_t which, ticket upto, decltype(waiter::then) then = nullptr) noexcept {
        waiter& w = waiters[which];
        w.upto = w.wanted = upto;
        w.complete = &complete;
        w.bench = this;
        w.then = then;
        list.add(w);
    }

    static void complete(completion_waiter& link) noexcept {
        auto& self = static_cast<waiter&>(link);
        waiter_fixture& bench = *self.bench;
        check(++bench.completing == 1, "two calls of complete() at a time");
        check(bench.list.released() >= self.wanted, "completed too early");
        check(++self.completed == 1, "completed twice");
        self.next_ = self.child_ = nullptr;  // the owner's again: a list that still uses them will fail
        if (self.then != nullptr) self.then(bench, self);
        --bench.completing;
    }

    void check_all_completed() const {
        for (const waiter& w : waiters) check(w.bench == nullptr || w.completed == 1, "a waiter was lost");
        check(list.empty(), "the list is not empty at the end");
    }
};

// Two adders and two releasers, one of them with a low ticket, late.
template <typename List>
scenario adders_and_releasers() {
    const auto b = std::make_shared<waiter_fixture<List>>();
    return {.threads = {[b] { b->add(0, 1), b->add(1, 3); }, [b] { b->add(2, 2), b->add(3, 1); },
                        [b] { b->list.release(1), b->list.release(3); }, [b] { b->list.release(2); }},
            .finally = [b] { b->check_all_completed(); }};
}

// Tickets in arbitrary order, so that the heap is used, from three adders.
template <typename List>
scenario tickets_out_of_order() {
    const auto b = std::make_shared<waiter_fixture<List>>();
    return {.threads = {[b] { b->add(0, 4), b->add(1, 2); }, [b] { b->add(2, 3), b->add(3, 1); },
                        [b] { b->add(4, 4), b->add(5, 0); }, [b] { b->list.release(2), b->list.release(4); },
                        [b] { b->list.release(1), b->list.release(3); }},
            .finally = [b] { b->check_all_completed(); }};
}

// Waiters that call add and release within complete(), while other threads do the same.
template <typename List>
scenario nested_calls() {
    using bench = waiter_fixture<List>;
    const auto b = std::make_shared<bench>();
    const auto add_next = [](bench& in, const typename bench::waiter&) noexcept { in.add(2, 2); };
    const auto add_due_and_release = [](bench& in, const typename bench::waiter&) noexcept {
        in.add(3, 1);
        in.list.release(3);
    };
    return {.threads = {[b, add_next] { b->add(0, 1, add_next); },
                        [b, add_due_and_release] { b->add(1, 2, add_due_and_release); }, [b] { b->add(4, 3); },
                        [b] { b->list.release(1), b->list.release(2); }},
            .finally = [b] { b->check_all_completed(); }};
}

// A thread whose waiter was added and is not completed never finds the list empty.
template <typename List>
scenario emptiness() {
    const auto b = std::make_shared<waiter_fixture<List>>();
    const auto add_and_look = [b](std::size_t which, ticket upto, int looks) {
        b->add(which, upto);
        for (int i = 0; i < looks; ++i) {
            const bool said_empty = b->list.empty();
            check(!said_empty || b->waiters[which].completed == 1, "said to be empty while a waiter is in it");
        }
    };
    return {.threads = {[=] { add_and_look(0, 2, 4); }, [=] { add_and_look(1, 1, 1); },
                        [b] { b->list.release(1), b->list.release(2); }},
            .finally = [b] { b->check_all_completed(); }};
}

// A poller is the only thread that releases, and sleeps while there is no waiter.
template <typename List>
scenario sleeping_poller() {
    struct state : waiter_fixture<List> {
        atomic<bool> sleeps{false};
        atomic<int> over{0};  // number of completed commands
    };
    const auto s = std::make_shared<state>();
    const auto add_and_wake = [s](std::size_t which) {
        const int upto = s->over.fetch_add(1) + 1;
        s->add(which, static_cast<ticket>(upto));
        if (s->sleeps.load()) s->sleeps.store(false);
    };
    const auto poll = [s] {
        const auto work_left = [s] { return s->waiters[0].completed + s->waiters[1].completed < 2; };
        while (work_left()) {
            s->list.release(static_cast<ticket>(s->over.load()));
            s->sleeps.store(true);
            if (!s->list.empty()) {  // continues to poll when there is a reason to look again
                const auto over = [s] { return static_cast<ticket>(s->over.load()); };
                wait_until([&] { return s->list.empty() || over() > s->list.released(); });
            } else if (work_left()) {
                wait_until([&] { return !s->sleeps.load(); });
            }
        }
    };
    return {.threads = {[=] { add_and_wake(0); }, [=] { add_and_wake(1); }, poll},
            .finally = [s] { s->check_all_completed(); }};
}

using make_scenario = scenario (*)();

template <typename List>
constexpr std::array<make_scenario, 5> all_scenarios = {adders_and_releasers<List>, tickets_out_of_order<List>,
                                                        nested_calls<List>, emptiness<List>, sleeping_poller<List>};

std::string explain(const interleave_result& result) {
    if (!result.failure) return "no failure";
    return "seed " + std::to_string(result.failure->seed) + ": " + result.failure->message + "; " +
           result.failure->order;
}

// The first failure that the explorer finds in 10,000 schedules of each scenario; empty for none.
template <list_fault Fault>
std::string found_in() {
    for (const make_scenario make : all_scenarios<faulty_completion_list<Fault>>) {
        const interleave_result result = interleave(make);
        if (result.failure) {
            // The seed alone reproduces it.
            const interleave_result replay = interleave(make, {.schedules = 1, .seed = result.failure->seed});
            EXPECT_EQ(explain(replay), explain(result));
            testing::Test::RecordProperty("schedules", static_cast<int>(result.schedules));
            return result.failure->message;
        }
    }
    return "";
}

class completion_interleaving : public testing::TestWithParam<std::size_t> {};

TEST_P(completion_interleaving, no_schedule_breaks_the_list) {
    const interleave_result result =
        interleave(all_scenarios<basic_completion_list<atomics>>[GetParam()], { .schedules = 20'000 });
    EXPECT_FALSE(result.failure) << explain(result);
    RecordProperty("steps", static_cast<int>(result.steps));
}

std::string scenario_name(const testing::TestParamInfo<std::size_t>& info) {
    constexpr std::array names = {"adders_and_releasers", "tickets_out_of_order", "nested_calls", "emptiness",
                                  "sleeping_poller"};
    return names.at(info.param);
}

INSTANTIATE_TEST_SUITE_P(scenarios, completion_interleaving, testing::Range(std::size_t{0}, std::size_t{5}),
                         scenario_name);

TEST(planted_fault, without_a_fault_nothing_is_found) { EXPECT_EQ(found_in<list_fault::none>(), ""); }

TEST(planted_fault, an_add_that_does_not_recheck_is_found) {
    EXPECT_EQ(found_in<list_fault::add_does_not_recheck>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_release_that_looks_before_it_raises_is_found) {
    EXPECT_EQ(found_in<list_fault::release_looks_before_it_raises>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_release_that_lowers_the_ticket_is_found) {
    EXPECT_NE(found_in<list_fault::release_stores>(), "");
}
TEST(planted_fault, a_drainer_that_does_not_loop_is_found) {
    EXPECT_EQ(found_in<list_fault::drainer_does_not_loop>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_drainer_that_does_not_recheck_is_found) {
    EXPECT_EQ(found_in<list_fault::drainer_does_not_recheck>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_drainer_that_publishes_too_early_is_found) {
    EXPECT_EQ(found_in<list_fault::drainer_publishes_too_soon>(), "said to be empty while a waiter is in it");
}
TEST(planted_fault, an_empty_that_ignores_the_drainer_is_found) {
    EXPECT_EQ(found_in<list_fault::empty_ignores_the_drainer>(), "said to be empty while a waiter is in it");
}
TEST(planted_fault, two_drainers_are_found) { EXPECT_NE(found_in<list_fault::concurrent_drainers>(), ""); }

}  // namespace
}  // namespace sluice::sim::completion_interleaving_tests
