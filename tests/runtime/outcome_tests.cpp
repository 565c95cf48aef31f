// How commands turn out, and what hangs on that.
#include "sluice/runtime/outcome.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace sluice::detail {
namespace {

outcome_ref command(std::vector<outcome_ref> sources = {}) { return outcome::made_of(std::move(sources), true); }
outcome_ref made_of(std::vector<outcome_ref> sources) { return outcome::made_of(std::move(sources), false); }

std::exception_ptr failure(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }
std::string text_of(const std::exception_ptr& failure) {
    if (!failure) return "";
    try {
        std::rethrow_exception(failure);
    } catch (const std::runtime_error& thrown) {
        return thrown.what();
    }
}

// An exception that tells when the last of it goes.
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

TEST(outcome, a_command_inherits_the_first_failure_of_what_it_hangs_on) {
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

TEST(outcome, what_is_made_of_several_is_fine_when_all_are) {
    const auto a = command(), b = command();
    const auto both = made_of({a, b});
    a->settle({});
    EXPECT_FALSE(both->is_fine());
    EXPECT_EQ(both->failure(), nullptr);
    b->settle({});
    EXPECT_TRUE(both->is_fine());
}

TEST(outcome, what_is_made_of_several_has_failed_when_one_has) {
    const auto a = command(), b = command();
    const auto both = made_of({a, b});
    b->settle(failure("b"));
    EXPECT_EQ(text_of(both->failure()), "b");
    EXPECT_EQ(text_of(both->inherited()), "b");
    a->settle(failure("a"));
    EXPECT_EQ(text_of(both->failure()), "b");  // once known it stays
}

TEST(outcome, what_is_made_of_what_is_made_of_several_sees_the_commands) {
    const auto a = command(), b = command(), c = command();
    auto nested = made_of({made_of({a, b}), made_of({c})});
    for (int i = 0; i < 1000; ++i) nested = made_of({nested, made_of({a})});
    EXPECT_FALSE(nested->is_fine());
    c->settle(failure("c"));
    EXPECT_EQ(text_of(nested->failure()), "c");
}

TEST(outcome, what_is_made_of_what_is_settled_knows_it) {
    const auto a = command(), b = command();
    const auto inner = made_of({a, b});
    a->settle(failure("a"));
    const auto late = made_of({inner, command()});
    EXPECT_EQ(text_of(late->failure()), "a");
    const auto heir = command({inner});
    EXPECT_EQ(text_of(heir->inherited()), "a");
}

TEST(outcome, a_failure_lives_as_long_as_somebody_may_ask_for_it) {
    const auto count = std::make_shared<int>(0);
    {
        auto source = command();
        const auto heir = command({source});
        const auto made = made_of({source});
        source->settle(counted_failure(count));
        source = {};
        EXPECT_EQ(text_of(heir->inherited()), "counted");
        EXPECT_EQ(text_of(made->failure()), "counted");
        EXPECT_GT(count.use_count(), 1);
    }
    EXPECT_EQ(count.use_count(), 1);
}

TEST(outcome, what_it_hung_on_goes_when_it_is_settled) {
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

TEST(outcome, a_chain_that_is_settled_in_turn_keeps_only_its_end) {
    const auto count = std::make_shared<int>(0);
    auto last = command();
    last->settle(counted_failure(count));
    for (int i = 0; i < 1000; ++i) {
        auto next = command({last});
        EXPECT_EQ(text_of(next->inherited()), "counted");
        next->settle(next->inherited());
        last = std::move(next);
    }
    EXPECT_EQ(count.use_count(), 2);  // one exception, however many know it
}

TEST(outcome, a_chain_of_a_million_is_dropped_without_recursion) {
    auto last = command();
    for (int i = 0; i < 1'000'000; ++i) last = command({std::move(last)});
    last = {};
    SUCCEED();
}

TEST(outcome, a_chain_of_a_million_with_branches_is_dropped_without_recursion) {
    auto last = command();
    for (int i = 0; i < 1'000'000; ++i) last = command({last, made_of({last, command()})});
    EXPECT_FALSE(last->is_fine());
    last = {};
    SUCCEED();
}

TEST(outcome, a_chain_of_a_million_is_settled_from_its_end_without_recursion) {
    std::vector<outcome_ref> all{command()};
    for (int i = 0; i < 1'000'000; ++i) all.push_back(command({all.back()}));
    const outcome_ref last = all.back();
    while (all.size() > 1) all.pop_back();
    last->settle({});
    EXPECT_TRUE(last->is_fine());
}

TEST(outcome, may_be_asked_for_while_it_is_settled) {
    for (int round = 0; round < 500; ++round) {
        auto a = command(), b = command();
        const auto both = made_of({a, b});
        std::atomic<bool> go = false;
        std::thread asking([&, both] {
            while (!go) std::this_thread::yield();
            while (!both->failure()) {
            }
            EXPECT_EQ(text_of(made_of({both})->failure()), "b");
        });
        go = true;
        a->settle({});
        b->settle(failure("b"));
        asking.join();
        EXPECT_FALSE(both->is_fine());
    }
}

TEST(outcome_set, nothing_makes_nothing) {
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

TEST(outcome_set, a_command_always_has_an_outcome_of_its_own) {
    const auto made = outcome_set().merge(true);
    ASSERT_TRUE(made);
    EXPECT_FALSE(made->is_fine());
    outcome_set hangs_on;
    const auto source = command();
    hangs_on.add(source);
    const auto heir = std::move(hangs_on).merge(true);
    EXPECT_NE(heir, source);
    source->settle(failure("source"));
    EXPECT_EQ(text_of(heir->inherited()), "source");
}

TEST(outcome_set, one_source_is_passed_on_as_it_is) {
    outcome_set hangs_on;
    const auto source = command();
    hangs_on.add(source);
    hangs_on.add(source);
    EXPECT_EQ(std::move(hangs_on).merge(false), source);
}

TEST(outcome_set, several_sources_keep_their_order) {
    outcome_set hangs_on;
    const auto a = command(), b = command(), c = command();
    for (const auto* each : {&a, &b, &a, &c, &b}) hangs_on.add(*each);
    const auto all = std::move(hangs_on).merge(false);
    for (const auto* each : {&c, &b, &a}) (*each)->settle(failure(each == &a ? "a" : each == &b ? "b" : "c"));
    EXPECT_EQ(text_of(all->failure()), "a");
}

}  // namespace sluice::detail
