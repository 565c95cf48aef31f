// SPDX-License-Identifier: Apache-2.0
// The ways to write co_await that the documentation calls safe. g++ 12 destroys some temporaries in a full expression
// with co_await twice: capturing closures, and aggregates with destructors. Each object here is counted and holds
// memory, for the address sanitizer.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "async/support/gate.hpp"
#include "sluice/async/resume_on.hpp"
#include "sluice/async/run_loop.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"

namespace sluice::co_await_patterns_tests {
namespace {

using test::counted;

// A class with a constructor, as all of the library's types are.
class labelled {
public:
    labelled(counted what, int number) : what_(std::move(what)), number_(number) {}
    int number() const { return number_; }
    task<int> ask(executor& on) const {
        co_await resume_on(on);
        co_return number_;
    }

private:
    counted what_;
    int number_;
};

class co_await_patterns : public testing::TestWithParam<bool> {
protected:
    // Ends at once, or after a suspension.
    task<int> number(int value) {
        if (GetParam()) co_await resume_on(loop_);
        co_return value;
    }
    task<counted> object() {
        if (GetParam()) co_await resume_on(loop_);
        co_return counted(alive_);
    }
    task<labelled> label(int value) {
        if (GetParam()) co_await resume_on(loop_);
        co_return labelled(counted(alive_), value);
    }
    counted thing() { return counted(alive_); }

    // Runs the task to its end and returns its result. Nothing of it may be left.
    template <typename T>
    T run(task<T> body) {
        auto result = spawn(std::move(body), loop_);
        while (!result.is_ready()) EXPECT_GT(loop_.run_pending(), 0u);
        return std::move(result).get();
    }
    void TearDown() override { EXPECT_EQ(alive_, 0); }

    int alive_ = 0;
    run_loop loop_;
};

INSTANTIATE_TEST_SUITE_P(at_once_and_later, co_await_patterns, testing::Bool(),
                         [](const auto& each) { return each.param ? "suspended" : "at_once"; });

int add(int a, int b, const counted&) { return a + b; }

TEST_P(co_await_patterns, a_named_operation_is_awaited_as_an_rvalue) {
    auto body = [this]() -> task<int> {
        auto operation = number(1);
        co_return co_await std::move(operation);
    };
    EXPECT_EQ(run(body()), 1);
}

TEST_P(co_await_patterns, named_operations_are_awaited_in_the_arguments_of_a_function) {
    auto body = [this]() -> task<int> {
        auto left = number(1);
        auto right = number(2);
        const counted local = thing();
        co_return add(co_await std::move(left), co_await std::move(right), local);
    };
    EXPECT_EQ(run(body()), 3);
}

TEST_P(co_await_patterns, tasks_are_awaited_as_temporaries_whose_arguments_are_temporaries) {
    auto take = [this](counted, std::string text) -> task<std::size_t> {
        co_await number(0);
        co_return text.size();
    };
    auto body = [&]() -> task<std::size_t> { co_return co_await take(thing(), std::string(100, 'x')); };
    EXPECT_EQ(run(body()), 100u);
}

TEST_P(co_await_patterns, what_is_awaited_is_passed_next_to_a_temporary) {
    auto body = [this]() -> task<int> { co_return add(co_await number(1), co_await number(2), thing()); };
    EXPECT_EQ(run(body()), 3);
}

TEST_P(co_await_patterns, a_class_with_a_constructor_is_a_temporary_whose_member_is_awaited) {
    auto body = [this]() -> task<int> { co_return co_await labelled(thing(), 4).ask(loop_); };
    EXPECT_EQ(run(body()), 4);
}

TEST_P(co_await_patterns, a_class_with_a_constructor_is_made_from_what_is_awaited) {
    auto body = [this]() -> task<int> {
        const labelled made(co_await object(), co_await number(5));
        std::vector<labelled> all;
        all.push_back(labelled(co_await object(), co_await number(6)));
        all.emplace_back(co_await object(), co_await number(7));
        co_return made.number() + all[0].number() + all[1].number();
    };
    EXPECT_EQ(run(body()), 18);
}

TEST_P(co_await_patterns, a_member_of_the_result_is_used) {
    auto body = [this]() -> task<int> { co_return (co_await label(8)).number(); };
    EXPECT_EQ(run(body()), 8);
}

TEST_P(co_await_patterns, results_are_bound_to_names) {
    auto body = [this]() -> task<int> {
        auto both = when_all(number(1), label(2));
        auto [one, two] = co_await std::move(both);
        auto either = when_any(label(3), label(4));
        auto [index, value] = co_await std::move(either);
        co_return one + two.number() + static_cast<int>(index) + std::get<0>(value).number();
    };
    EXPECT_EQ(run(body()), 6);
    while (loop_.run_pending() != 0) {  // the task that when_any has abandoned
    }
}

TEST_P(co_await_patterns, a_lambda_returned_by_a_function_is_passed_on) {
    const auto adds = [](counted held, int number) {
        return [held = std::move(held), number](int value) { return value + number; };
    };
    auto apply = [this](auto function, int value) -> task<int> { co_return function(co_await number(value)); };
    auto body = [&]() -> task<int> { co_return co_await apply(adds(thing(), 1), 2); };
    EXPECT_EQ(run(body()), 3);
}

TEST_P(co_await_patterns, a_lambda_with_a_name_is_passed_on) {
    auto apply = [this](auto function, int value) -> task<int> { co_return function(co_await number(value)); };
    auto body = [&]() -> task<int> {
        auto adds = [held = thing(), number = 1](int value) { return value + number; };
        auto pipeline = apply(std::move(adds), 2);
        co_return co_await std::move(pipeline);
    };
    EXPECT_EQ(run(body()), 3);
}

TEST_P(co_await_patterns, a_lambda_that_captures_what_is_trivial_is_a_temporary) {
    auto apply = [this](auto function, int value) -> task<int> { co_return function(co_await number(value)); };
    auto body = [&]() -> task<int> {
        int calls = 0;
        const int sum = co_await apply([&calls](int value) { return value + ++calls; }, 2);
        co_return sum;
    };
    EXPECT_EQ(run(body()), 3);
}

TEST_P(co_await_patterns, what_depends_on_a_condition_is_given_a_name_first) {
    auto body = [this](bool first) -> task<int> {
        auto chosen = first ? label(1) : label(2);
        const labelled made = co_await std::move(chosen);
        int number_made = made.number();
        if (first) number_made += co_await number(10);
        co_return number_made;
    };
    EXPECT_EQ(run(body(true)), 11);
    EXPECT_EQ(run(body(false)), 2);
}

TEST_P(co_await_patterns, conditions_and_loops_await) {
    auto body = [this]() -> task<int> {
        int rounds = 0;
        while (co_await number(rounds) < 3) ++rounds;
        for (const int each : {1, 2}) {
            if (const labelled made = co_await label(each); made.number() == 2) rounds += 10;
        }
        switch (co_await number(rounds)) {
            case 13: co_return 1;
            default: co_return 0;
        }
    };
    EXPECT_EQ(run(body()), 1);
}

TEST_P(co_await_patterns, exceptions_are_caught_around_what_is_awaited) {
    auto fails = [this](counted) -> task<counted> {
        co_await number(0);
        throw std::runtime_error("failed");
    };
    auto body = [&]() -> task<int> {
        try {
            const labelled never(co_await fails(thing()), co_await number(1));
            co_return never.number();
        } catch (const std::runtime_error&) {
        }
        co_return co_await number(2);
    };
    EXPECT_EQ(run(body()), 2);
}

TEST_P(co_await_patterns, spawned_tasks_are_awaited_by_name_and_as_temporaries) {
    auto body = [this]() -> task<int> {
        auto named = spawn(label(1), loop_);
        const int second = co_await spawn(number(2), loop_);
        co_return (co_await std::move(named)).number() + second;
    };
    EXPECT_EQ(run(body()), 3);
}

}  // namespace
}  // namespace sluice::co_await_patterns_tests
