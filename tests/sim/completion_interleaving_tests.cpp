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
        plain<ticket> wanted;
        plain<int> completed;
    };

    List list;
    std::array<waiter, 8> waiters;
    std::array<plain<bool>, 8> done;  // by ticket, for scenarios whose releases come in order
    plain<int> completing;

    void add(std::size_t which, ticket upto, decltype(waiter::then) then = nullptr) noexcept {
        waiter& w = waiters[which];
        w.upto = upto;
        w.wanted.set(upto);
        w.complete = &complete;
        w.bench = this;
        w.then = then;
        list.add(w);
    }

    static void complete(completion_waiter& link) noexcept {
        auto& self = static_cast<waiter&>(link);
        waiter_fixture& bench = *self.bench;
        bench.completing.set(bench.completing.get() + 1);
        check(bench.completing.get() == 1, "two calls of complete() at a time");
        check(bench.list.released() >= self.wanted.get(), "completed too early");
        self.completed.set(self.completed.get() + 1);
        check(self.completed.get() == 1, "completed twice");
        self.next_ = self.child_ = nullptr;  // the owner's again: a list that still uses them will fail
        if (self.then != nullptr) self.then(bench, self);
        bench.completing.set(bench.completing.get() - 1);
    }

    void check_all_completed() const {
        for (const waiter& w : waiters) check(w.bench == nullptr || w.completed.get() == 1, "a waiter was lost");
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
    struct state : waiter_fixture<List> {
        std::array<atomic<bool>, 8> completed{};  // complete() has been called; what it did need not be visible yet
    };
    const auto s = std::make_shared<state>();
    const auto add_and_look = [s](std::size_t which, ticket upto, int looks) {
        s->add(which, upto, [](waiter_fixture<List>& in, const auto& self) noexcept {
            static_cast<state&>(in).completed[static_cast<std::size_t>(&self - in.waiters.data())] = true;
        });
        for (int i = 0; i < looks; ++i) {
            const bool said_empty = s->list.empty();
            check(!said_empty || s->completed[which], "said to be empty while a waiter is in it");
        }
    };
    return {.threads = {[=] { add_and_look(0, 2, 4); }, [=] { add_and_look(1, 1, 1); },
                        [s] { s->list.release(1), s->list.release(2); }},
            .finally = [s] { s->check_all_completed(); }};
}

// What was written before a ticket was released can be read when its waiter completes, on whichever thread.
template <typename List>
scenario results() {
    using bench = waiter_fixture<List>;
    const auto b = std::make_shared<bench>();
    const auto read = [](bench& in, const typename bench::waiter& w) noexcept {
        check(in.done[w.wanted.get()].get(), "the result is not there");
    };
    const auto release = [b](ticket upto) {
        b->done[upto].set(true);
        b->list.release(upto);
    };
    return {.threads = {[=] { b->add(0, 1, read), b->add(1, 3, read); }, [=] { b->add(2, 2, read); },
                        [=] { release(1), release(2), release(3); }},
            .finally = [b] { b->check_all_completed(); }};
}

// A poller is the only thread that releases, and sleeps while there is no waiter.
template <typename List>
scenario sleeping_poller() {
    struct state : waiter_fixture<List> {
        atomic<bool> sleeps{false};
        atomic<int> over{0};       // number of completed commands
        atomic<int> completed{0};  // number of completed waiters
    };
    const auto s = std::make_shared<state>();
    const auto add_and_wake = [s](std::size_t which) {
        const int upto = s->over.fetch_add(1) + 1;
        s->add(which, static_cast<ticket>(upto),
               [](waiter_fixture<List>& in, const auto&) noexcept { static_cast<state&>(in).completed.fetch_add(1); });
        if (s->sleeps.load()) s->sleeps.store(false);
    };
    const auto poll = [s] {
        const auto work_left = [s] { return s->completed.load() < 2; };
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
constexpr std::array<make_scenario, 6> all_scenarios = {
    adders_and_releasers<List>, tickets_out_of_order<List>, nested_calls<List>, emptiness<List>, results<List>,
    sleeping_poller<List>};

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
    constexpr std::array names = {
        "adders_and_releasers", "tickets_out_of_order", "nested_calls", "emptiness", "results", "sleeping_poller"};
    return names.at(info.param);
}

INSTANTIATE_TEST_SUITE_P(scenarios, completion_interleaving, testing::Range(std::size_t{0}, std::size_t{6}),
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
TEST(planted_fault, an_earliest_ticket_that_is_stored_relaxed_is_found) {
    EXPECT_EQ(found_in<list_fault::earliest_is_stored_relaxed>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_drainer_that_rereads_the_released_ticket_with_acquire_only_is_found) {
    EXPECT_EQ(found_in<list_fault::drainer_rereads_with_acquire>(), "in the end: a waiter was lost");
}
TEST(planted_fault, a_push_that_is_not_sequentially_consistent_is_found) {
    EXPECT_EQ(found_in<list_fault::push_is_release>(), "in the end: a waiter was lost");
}
TEST(planted_fault, drainers_that_do_not_synchronize_are_found) {
    EXPECT_THAT(found_in<list_fault::requests_are_relaxed>(), testing::HasSubstr("a data race"));
}
TEST(planted_fault, two_drainers_are_found) { EXPECT_NE(found_in<list_fault::concurrent_drainers>(), ""); }

}  // namespace
}  // namespace sluice::sim::completion_interleaving_tests
