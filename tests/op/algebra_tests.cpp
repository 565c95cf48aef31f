// SPDX-License-Identifier: Apache-2.0
// The algebra of operations, without devices: the operations here are the tests' own, and ignore the context that they
// are submitted to.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "sluice/op/any_operation.hpp"
#include "sluice/op/share.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::algebra_tests {
namespace {

// An operation as a user would write one.
class countdown : public operation_base<countdown> {
public:
    using output = int;
    countdown(int from, int* submissions) : from_(from), submissions_(submissions) {}
    output submit(execution_context&) && {
        ++*submissions_;
        return from_ - 1;
    }
    work_estimate estimate() const { return {.commands = 3, .bytes = 10}; }

private:
    int from_;
    int* submissions_;
};

class algebra : public testing::Test {
protected:
    template <typename Op>
    auto run(Op op) {
        return sync(std::move(op), pool);
    }

    runtime owner{{.cpu_devices = 1, .cpu_workers = 1, .cuda = false}};
    single_stream pool{owner.default_device()};
    int submissions = 0;
};

}  // namespace

TEST_F(algebra, holds_for_operations_that_users_write) {
    auto chain = countdown(3, &submissions).and_then([this](int x) { return countdown(x, &submissions); });
    EXPECT_EQ(chain.estimate().commands, 4u);  // the continuation counts as one command
    EXPECT_EQ(submissions, 0);
    EXPECT_EQ(run(std::move(chain).transform([](int x) { return 10 * x; })), 10);
    EXPECT_EQ(submissions, 2);
}

TEST_F(algebra, and_then_of_value_is_the_function_itself) {
    const auto f = [](int x) { return value(2 * x); };
    EXPECT_EQ(run(value(4).and_then(f)), run(f(4)));
}

TEST_F(algebra, and_then_value_changes_nothing) {
    EXPECT_EQ(run(countdown(8, &submissions).and_then([](int x) { return value(x); })), 7);
}

TEST_F(algebra, and_then_is_associative) {
    const auto f = [](int x) { return value(x + 1); };
    const auto g = [](int x) { return value(x * 3); };
    EXPECT_EQ(run(value(5).and_then(f).and_then(g)), run(value(5).and_then([=](int x) { return f(x).and_then(g); })));
}

TEST_F(algebra, transform_is_and_then_with_a_value) {
    const auto f = [](int x) { return std::to_string(x); };
    EXPECT_EQ(run(value(5).transform(f)), run(value(5).and_then([=](int x) { return value(f(x)); })));
}

TEST_F(algebra, a_zip_of_one_is_spread_like_any_other) {
    EXPECT_EQ(run(zip(value(5)).transform([](int x) { return x + 1; })), 6);
}

TEST_F(algebra, a_function_object_that_can_only_be_called_once_is_called_once) {
    struct once {
        std::unique_ptr<int> state = std::make_unique<int>(7);
        auto operator()(int x) && { return value(x + *state); }
    };
    EXPECT_EQ(run(value(1).and_then(once{})), 8);
}

TEST_F(algebra, a_branch_gets_a_stream_from_the_threshold_on) {
    static_assert(!is_worth_a_branch({}));
    static_assert(!is_worth_a_branch({branch_threshold.commands - 1, branch_threshold.bytes - 1}));
    static_assert(is_worth_a_branch({branch_threshold.commands, 0}));
    static_assert(is_worth_a_branch({0, branch_threshold.bytes}));
    EXPECT_EQ(zip(countdown(1, &submissions), countdown(2, &submissions)).estimate().bytes, 20u);
}

TEST_F(algebra, with_context_counts_as_the_estimate_that_it_is_given) {
    EXPECT_EQ(with_context([](execution_context&) {}).estimate().commands, 1u);
    EXPECT_EQ(with_context([](execution_context&) {}, {.commands = 7, .bytes = 9}).estimate().bytes, 9u);
}

TEST_F(algebra, a_failed_share_throws_the_same_exception_again) {
    const auto broken = share(with_context([this](execution_context&) -> int {
        ++submissions;
        throw std::runtime_error("mine");
    }));
    for (int i = 0; i < 3; ++i) {
        auto one = broken;
        EXPECT_THROW(run(std::move(one)), std::runtime_error);
    }
    EXPECT_EQ(submissions, 1);
}

TEST_F(algebra, a_shared_value_counts_its_handles) {
    const shared<std::string> text(std::string("text"));
    EXPECT_EQ(text.use_count(), 1);
    const auto second = text;
    EXPECT_EQ(text.use_count(), 2);
    EXPECT_EQ(*second, "text");
    EXPECT_EQ(second->size(), 4u);
    EXPECT_EQ(&*second, &*text);
}

}  // namespace sluice::algebra_tests
