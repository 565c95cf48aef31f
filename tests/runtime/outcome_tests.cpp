// SPDX-License-Identifier: Apache-2.0
// Outcomes: success and failure of commands, and of the commands that depend on them.
#include "sluice/runtime/detail/outcome.hpp"
#include "support/million.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace sluice::detail::outcome_tests {
namespace {

outcome_ref command(std::vector<outcome_ref> sources = {}) { return outcome::combined(std::move(sources), true); }
outcome_ref combined(std::vector<outcome_ref> sources) { return outcome::combined(std::move(sources), false); }

std::exception_ptr failure(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }
std::string text_of(const std::exception_ptr& failure) {
    if (!failure) return "";
    try {
        std::rethrow_exception(failure);
    } catch (const std::runtime_error& thrown) {
        return thrown.what();
    }
}

// An exception whose copies are counted by `count`.
std::exception_ptr counted_failure(const std::shared_ptr<int>& count) {
    struct counted : std::runtime_error {
        explicit counted(std::shared_ptr<int> c) : std::runtime_error("counted"), held(std::move(c)) {}
        std::shared_ptr<int> held;
    };
    return std::make_exception_ptr(counted(count));
}

}  // namespace

TEST(outcome, is_not_known_before_it_is_settled) {
    const auto one = command();
    EXPECT_EQ(one->failure(), nullptr);
    EXPECT_FALSE(one->is_fine());
    EXPECT_EQ(one->inherited(), nullptr);
}

TEST(outcome, is_fine_or_a_failure_when_it_is_settled) {
    const auto fine = command(), failed = command();
    fine->settle({});
    failed->settle(failure("mine"));
    EXPECT_TRUE(fine->is_fine());
    EXPECT_EQ(fine->failure(), nullptr);
    EXPECT_FALSE(failed->is_fine());
    EXPECT_EQ(text_of(failed->failure()), "mine");
}

TEST(outcome, a_command_inherits_the_first_failure_of_its_sources) {
    const auto fine = command(), first = command(), second = command();
    const auto heir = command({fine, first, second});
    fine->settle({});
    EXPECT_EQ(heir->inherited(), nullptr);
    second->settle(failure("second"));
    EXPECT_EQ(text_of(heir->inherited()), "second");
    first->settle(failure("first"));
    EXPECT_EQ(text_of(heir->inherited()), "first");
    EXPECT_EQ(heir->failure(), nullptr);  // it has not been settled itself
    EXPECT_FALSE(heir->is_fine());
}

TEST(outcome, a_combined_outcome_is_fine_when_all_sources_are) {
    const auto a = command(), b = command();
    const auto both = combined({a, b});
    a->settle({});
    EXPECT_FALSE(both->is_fine());
    EXPECT_EQ(both->failure(), nullptr);
    b->settle({});
    EXPECT_TRUE(both->is_fine());
}

TEST(outcome, a_combined_outcome_has_failed_when_one_source_has_and_all_are_known) {
    const auto a = command(), b = command();
    const auto both = combined({a, b});
    b->settle(failure("b"));
    EXPECT_EQ(both->failure(), nullptr);
    a->settle({});
    EXPECT_EQ(text_of(both->failure()), "b");
    EXPECT_EQ(text_of(both->inherited()), "b");
}

TEST(outcome, of_several_failures_that_of_the_first_source_counts_in_any_order_of_time) {
    const auto a = command(), b = command();
    const auto both = combined({a, b});
    b->settle(failure("b"));
    a->settle(failure("a"));
    EXPECT_EQ(text_of(both->failure()), "a");
}

TEST(outcome, nested_combined_outcomes_see_the_failures_of_commands) {
    const auto a = command(), b = command(), c = command();
    auto nested = combined({combined({a, b}), combined({c})});
    for (int i = 0; i < 1000; ++i) nested = combined({nested, combined({a})});
    c->settle(failure("c"));
    EXPECT_FALSE(nested->is_fine());
    a->settle({});
    b->settle({});
    EXPECT_EQ(text_of(nested->failure()), "c");
}

TEST(outcome, an_outcome_with_settled_sources_knows_their_failure) {
    const auto a = command(), b = command();
    const auto inner = combined({a, b});
    a->settle(failure("a"));
    b->settle({});
    EXPECT_EQ(text_of(combined({inner})->failure()), "a");
    const auto heir = command({inner});
    EXPECT_EQ(text_of(heir->inherited()), "a");
}

TEST(outcome, a_failure_lives_while_an_outcome_that_has_it_is_referenced) {
    const auto count = std::make_shared<int>(0);
    {
        auto source = command();
        const auto heir = command({source});
        const auto made = combined({source});
        source->settle(counted_failure(count));
        source = {};
        EXPECT_EQ(text_of(heir->inherited()), "counted");
        EXPECT_EQ(text_of(made->failure()), "counted");
        EXPECT_GT(count.use_count(), 1);
    }
    EXPECT_EQ(count.use_count(), 1);
}

TEST(outcome, a_settled_outcome_releases_what_it_depended_on) {
    const auto count = std::make_shared<int>(0);
    auto source = command();
    source->settle(counted_failure(count));
    const auto heir = command({source});
    source = {};
    EXPECT_EQ(count.use_count(), 2);
    heir->settle({});
    EXPECT_EQ(count.use_count(), 1);
    EXPECT_TRUE(heir->is_fine());
}

TEST(outcome, a_chain_that_is_settled_in_order_keeps_only_its_end) {
    const auto count = std::make_shared<int>(0);
    auto last = command();
    last->settle(counted_failure(count));
    for (int i = 0; i < 1000; ++i) {
        auto next = command({last});
        EXPECT_EQ(text_of(next->inherited()), "counted");
        next->settle(next->inherited());
        last = std::move(next);
    }
    EXPECT_EQ(count.use_count(), 2);  // one exception, which all of them have passed on
}

TEST(outcome, a_chain_of_a_million_that_never_ran_is_dropped_without_recursion) {
    const auto count = std::make_shared<int>(0);
    auto first = command();
    {
        const auto broken = outcome::failed(counted_failure(count));
        auto last = first;
        for (int i = 0; i < test_support::million; ++i) last = command({std::move(last), broken});
    }
    EXPECT_EQ(count.use_count(), 2);  // one exception, which all of them have inherited
    first = {};
    EXPECT_EQ(count.use_count(), 1);
}

TEST(outcome, a_chain_of_a_million_with_branches_is_dropped_without_recursion) {
    const auto first = command();
    auto last = first;
    for (int i = 0; i < test_support::million; ++i) last = command({last, combined({last, command()})});
    EXPECT_FALSE(last->is_fine());
}

TEST(outcome, a_sum_of_a_million_is_settled_without_recursion) {
    const auto first = command(), other = command();
    auto sum = first;
    for (int i = 0; i < test_support::million; ++i) sum = combined({std::move(sum), other});
    first->settle({});
    EXPECT_FALSE(sum->is_fine());
    other->settle({});
    EXPECT_TRUE(sum->is_fine());
}

// The butterflies of a Fourier transform: 2^64 paths lead from the last pair to the first.
TEST(outcome, in_a_butterfly_each_outcome_is_settled_once_whatever_the_number_of_paths) {
    const auto a = command(), b = command();
    auto left = a, right = b;
    for (int depth = 0; depth < 64; ++depth) {
        auto sum = combined({left, right}), difference = combined({left, right});
        left = std::move(sum);
        right = std::move(difference);
    }
    const auto after = command({left, right});
    a->settle({});
    EXPECT_EQ(left->failure(), nullptr);
    b->settle(failure("b"));
    EXPECT_EQ(text_of(left->failure()), "b");
    EXPECT_EQ(text_of(after->inherited()), "b");
}

TEST(outcome, a_settled_source_keeps_no_dependents) {
    const auto count = std::make_shared<int>(0);
    const auto source = command();
    {
        const auto broken = outcome::failed(counted_failure(count));
        combined({source, broken});
    }
    EXPECT_EQ(count.use_count(), 2);  // an open source keeps its dependents
    source->settle({});
    EXPECT_EQ(count.use_count(), 1);
}

TEST(outcome, a_chain_of_a_million_is_settled_from_its_end_without_recursion) {
    std::vector<outcome_ref> all{command()};
    for (int i = 0; i < test_support::million; ++i) all.push_back(command({all.back()}));
    const outcome_ref last = all.back();
    while (all.size() > 1) all.pop_back();
    last->settle({});
    EXPECT_TRUE(last->is_fine());
}

TEST(outcome, may_be_read_while_it_is_settled) {
    for (int round = 0; round < 500; ++round) {
        auto a = command(), b = command();
        const auto both = combined({a, b});
        std::atomic<bool> go = false;
        std::thread asking([&, both] {
            while (!go) std::this_thread::yield();
            while (!both->failure()) {
            }
            EXPECT_EQ(text_of(combined({both})->failure()), "b");
        });
        go = true;
        a->settle({});
        b->settle(failure("b"));
        asking.join();
        EXPECT_FALSE(both->is_fine());
    }
}

TEST(outcome_set, without_sources_merges_to_no_outcome) {
    outcome_set none;
    EXPECT_TRUE(none.empty());
    EXPECT_FALSE(std::move(none).merge(false));
    outcome_set still_none;
    still_none.add({});
    const auto fine = command();
    fine->settle({});
    still_none.add(fine);
    EXPECT_TRUE(still_none.empty());
    EXPECT_FALSE(std::move(still_none).merge(false));
}

TEST(outcome_set, a_command_always_has_its_own_outcome) {
    const auto made = outcome_set().merge(true);
    ASSERT_TRUE(made);
    EXPECT_FALSE(made->is_fine());
    outcome_set depends_on;
    const auto source = command();
    depends_on.add(source);
    const auto heir = std::move(depends_on).merge(true);
    EXPECT_NE(heir, source);
    source->settle(failure("source"));
    EXPECT_EQ(text_of(heir->inherited()), "source");
}

TEST(outcome_set, one_source_is_passed_on_unchanged) {
    outcome_set depends_on;
    const auto source = command();
    depends_on.add(source);
    depends_on.add(source);
    EXPECT_EQ(std::move(depends_on).merge(false), source);
}

TEST(outcome_set, several_sources_keep_their_order) {
    outcome_set depends_on;
    const auto a = command(), b = command(), c = command();
    for (const auto* each : {&a, &b, &a, &c, &b}) depends_on.add(*each);
    const auto all = std::move(depends_on).merge(false);
    for (const auto* each : {&c, &b, &a}) (*each)->settle(failure(each == &a ? "a" : each == &b ? "b" : "c"));
    EXPECT_EQ(text_of(all->failure()), "a");
}

}  // namespace sluice::detail::outcome_tests
