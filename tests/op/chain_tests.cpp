// SPDX-License-Identifier: Apache-2.0
// Operations that are chained at run time: a million of them take a stack of constant depth.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/op/any_operation.hpp"
#include "sluice/op/named.hpp"
#include "sluice/op/share.hpp"
#include "sluice/op/unzip.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/million.hpp"
#include "support/small_stack.hpp"

namespace sluice::chain_tests {
namespace {

constexpr int length = test_support::million;

class chains : public testing::Test {
protected:
    template <typename Op>
    auto run(Op op) {
        return sync(std::move(op), pool);
    }

    // A chain of `length` operations: step(chain, i) adds one.
    template <typename Step>
    static any_operation<int> make(Step&& step) {
        any_operation<int> chain = value(0);
        for (int i = 0; i < length; ++i) chain = step(std::move(chain), i);
        return chain;
    }
    static any_operation<int> add_one(any_operation<int> chain, int) {
        return std::move(chain).and_then([](int x) { return value(x + 1); });
    }

    runtime owner{{.cpu_devices = 1, .cpu_workers = 1, .cuda = false}};
    single_stream pool{owner.default_device()};
};

const std::string& name_now(execution_context& context) {
    static const std::string none;
    const std::string* const name = context.submission()->name();
    return name != nullptr ? *name : none;
}

}  // namespace

TEST_F(chains, a_million_continuations_are_submitted_on_a_small_stack) {
    test_support::on_small_stack([this] { EXPECT_EQ(run(make(add_one)), length); });
}

TEST_F(chains, a_million_continuations_are_dropped_on_a_small_stack) {
    test_support::on_small_stack([] {
        any_operation<int> replaced = make(add_one);
        replaced = value(1);
        const any_operation<int> dropped = make(add_one);
    });
}

TEST_F(chains, a_million_functions_on_values_run_on_a_small_stack) {
    test_support::on_small_stack([this] {
        EXPECT_EQ(run(make([](any_operation<int> chain, int) -> any_operation<int> {
                      return std::move(chain).transform([](int x) { return x + 1; });
                  })),
                  length);
    });
}

TEST_F(chains, a_million_names_around_names_are_no_deeper) {
    test_support::on_small_stack([this] {
        EXPECT_EQ(run(make([](any_operation<int> chain, int i) -> any_operation<int> {
                      return named("inside", add_one(named("step", std::move(chain)), i));
                  })),
                  length);
    });
}

TEST_F(chains, a_million_sums_of_a_chain_and_something_else_are_no_deeper) {
    test_support::on_small_stack([this] {
        const auto add = [](any_operation<int> chain, int) -> any_operation<int> {
            return zip(std::move(chain), value(1)).transform([](int x, int y) { return x + y; });
        };
        EXPECT_EQ(run(make(add)), length);
        make(add);
        make([](any_operation<int> chain, int) -> any_operation<int> {
            return zip(value(1), std::move(chain)).transform([](int x, int y) { return x + y; });
        });
    });
}

TEST_F(chains, a_million_sums_of_something_else_and_a_chain_are_no_deeper) {
    test_support::on_small_stack([this] {
        EXPECT_EQ(run(make([](any_operation<int> chain, int) -> any_operation<int> {
                      return zip(value(1), std::move(chain), value(0)).transform([](int x, int y, int z) {
                          return x + y + z;
                      });
                  })),
                  length);
    });
}

TEST_F(chains, a_million_shared_operations_in_each_other_are_no_deeper) {
    test_support::on_small_stack([this] {
        const auto add_shared = [](any_operation<int> chain, int) -> any_operation<int> {
            auto once = share(std::move(chain));
            auto again = once;
            return zip(std::move(once), std::move(again)).transform([](const auto& x, const auto& y) {
                EXPECT_EQ(&*x, &*y);
                return *x + 1;
            });
        };
        EXPECT_EQ(run(make(add_shared)), length);
        make(add_shared);
    });
}

TEST_F(chains, a_million_unzipped_operations_in_each_other_are_no_deeper) {
    test_support::on_small_stack([this] {
        const auto swap = [](any_operation<int> chain, int) -> any_operation<int> {
            auto [first, second] = unzip(zip(value(1), std::move(chain)));
            return zip(std::move(second), std::move(first)).transform([](int x, int y) { return x + y; });
        };
        EXPECT_EQ(run(make(swap)), length);
        make(swap);
    });
}

TEST_F(chains, a_shared_operation_that_fails_inside_fails_each_copy_and_runs_once) {
    int called = 0;
    any_operation<int> fails = value(0);
    fails = std::move(fails).transform([&called](int) -> int {
        ++called;
        throw std::runtime_error("inside");
    });
    auto once = share(std::move(fails).and_then([](int x) { return value(x); }));
    auto again = once;
    any_operation<int> first = std::move(once).transform([](const auto& x) { return *x; });
    EXPECT_THROW(run(any_operation<int>(named("outer", std::move(first)))), std::runtime_error);
    EXPECT_THROW(run(std::move(again)), std::runtime_error);
    EXPECT_EQ(called, 1);
}

TEST_F(chains, the_parts_of_a_zip_are_submitted_from_left_to_right_and_none_after_a_failure) {
    std::vector<int> order;
    const auto note = [&order](int i) -> any_operation<int> {
        any_operation<int> inside = with_context([&order, i](execution_context&) {
            order.push_back(i);
            return i;
        });
        return std::move(inside).transform([&order](int x) {
            order.push_back(x + 1);
            return x;
        });
    };
    const auto plain = [&order](int i) {
        return with_context([&order, i](execution_context&) {
            order.push_back(i);
            return i;
        });
    };
    any_operation<std::tuple<int, int, int>> all = zip(note(0), plain(2), note(3));
    EXPECT_EQ(run(std::move(all)), std::tuple(0, 2, 3));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));

    order.clear();
    auto fails = with_context([](execution_context&) -> int { throw std::runtime_error("second"); });
    all = zip(note(0), std::move(fails), note(3));
    EXPECT_THROW(run(std::move(all)), std::runtime_error);
    EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST_F(chains, outputs_that_were_submitted_are_freed_when_a_later_part_fails) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    any_operation<std::shared_ptr<int>> first = value(std::move(held));
    any_operation<int> second = with_context([](execution_context&) -> int { throw std::runtime_error("second"); });
    any_operation<int> both = zip(std::move(first), std::move(second)).transform([](const auto&, int x) { return x; });
    EXPECT_THROW(run(std::move(both)), std::runtime_error);
    EXPECT_TRUE(watch.expired());
}

TEST_F(chains, an_operation_that_is_dropped_inside_another_one_is_destroyed_with_it) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    any_operation<std::shared_ptr<int>> inside = value(std::move(held));
    any_operation<int> outside = with_context([kept = std::make_shared<any_operation<std::shared_ptr<int>>>(
                                                   std::move(inside))](execution_context&) { return 1; });
    outside = value(2);
    EXPECT_TRUE(watch.expired());
}

// The type of a chain may change from step to step.
TEST_F(chains, outputs_of_several_types_follow_each_other) {
    any_operation<int> numbers = value(1);
    for (int i = 0; i < 5; ++i) {
        any_operation<std::string> text = std::move(numbers).transform([](int x) { return std::to_string(x); });
        numbers = named("back", std::move(text)).and_then([](const std::string& x) { return value(std::stoi(x) * 2); });
    }
    EXPECT_EQ(run(std::move(numbers)), 32);
}

TEST_F(chains, the_functions_are_called_from_the_first_to_the_last) {
    std::vector<int> order;
    any_operation<int> chain = value(0);
    for (int i = 0; i < 10; ++i) {
        chain = zip(std::move(chain), with_context([&order, i](execution_context&) {
                        order.push_back(2 * i);
                        return i;
                    }))
                    .and_then([&order, i](int, int y) {
                        order.push_back(2 * i + 1);
                        return value(y);
                    });
    }
    EXPECT_EQ(run(std::move(chain)), 9);
    std::vector<int> expected;
    for (int i = 0; i < 20; ++i) expected.push_back(i);
    EXPECT_EQ(order, expected);
}

TEST_F(chains, names_hold_for_what_is_inside_them) {
    std::vector<std::string> names;
    const auto look = [&names](int x) {
        return with_context([&names, x](execution_context& context) {
            names.push_back(name_now(context));
            return x;
        });
    };
    any_operation<int> chain = value(0);
    chain = std::move(chain).and_then(look);
    chain = named("inner", std::move(chain).and_then(look));
    chain = std::move(chain).and_then(look);
    chain = named("outer", named("between", std::move(chain).and_then(look)).and_then(look));
    run(std::move(chain).and_then(look));
    EXPECT_EQ(names, (std::vector<std::string>{"inner", "inner", "between", "between", "outer", ""}));
}

TEST_F(chains, an_exception_in_the_middle_comes_out_and_what_follows_is_not_called) {
    int called = 0;
    const auto count = [&called](int x) {
        ++called;
        return value(x);
    };
    any_operation<int> chain = value(0);
    for (int i = 0; i < 5; ++i) chain = std::move(chain).and_then(count);
    chain = std::move(chain).and_then([](int x) {
        if (x == 0) throw std::runtime_error("middle");
        return value(x);
    });
    for (int i = 0; i < 5; ++i) chain = std::move(chain).and_then(count);
    try {
        run(std::move(chain));
        FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& failure) {
        EXPECT_STREQ(failure.what(), "middle");
    }
    EXPECT_EQ(called, 5);
}

TEST_F(chains, an_exception_at_the_start_of_a_hundred_thousand_comes_out_on_a_small_stack) {
    test_support::on_small_stack([this] {
        any_operation<int> chain = with_context([](execution_context&) -> int { throw std::runtime_error("first"); });
        for (int i = 0; i < 100'000; ++i) chain = add_one(std::move(chain), i);
        EXPECT_THROW(run(std::move(chain)), std::runtime_error);
    });
}

TEST_F(chains, each_operation_is_estimated_once) {
    struct counted : operation_base<counted> {
        using output = int;
        explicit counted(int* calls) : calls_(calls) {}
        output submit(execution_context&) && { return 1; }
        work_estimate estimate() const {
            ++*calls_;
            return {.commands = 1};
        }
        int* calls_;
    };
    int calls = 0;
    any_operation<int> sum = counted(&calls);
    for (int i = 1; i < 1000; ++i) {
        sum = zip(std::move(sum), any_operation<int>(counted(&calls))).transform([](int x, int y) { return x + y; });
    }
    EXPECT_EQ(sum.estimate().commands, 1000u);
    EXPECT_EQ(run(std::move(sum)), 1000);
    EXPECT_EQ(calls, 1000);
}

TEST_F(chains, the_blocks_that_a_thread_drops_are_taken_again) {
    const auto in_thread = [](const auto& f) { std::thread(f).join(); };
    in_thread([] {
        const std::size_t kept = detail::link_memory::keeps ? 100 : 0;
        const auto make_hundred = [] {
            any_operation<int> chain = value(0);
            for (int i = 1; i < 100; ++i) chain = add_one(std::move(chain), i);
            return chain;
        };
        static_cast<void>(make_hundred());
        EXPECT_EQ(detail::link_memory::kept(), kept);
        {
            const any_operation<int> again = make_hundred();
            EXPECT_EQ(detail::link_memory::kept(), 0u);
        }
        EXPECT_EQ(detail::link_memory::kept(), kept);
    });
    // Made by one thread and dropped by another.
    any_operation<int> carried = value(1);
    in_thread([&] {
        any_operation<int> mine = std::move(carried);
        static_cast<void>(any_operation<int>(std::move(mine)));
    });
    in_thread([&] { carried = value(2); });
    EXPECT_EQ(run(std::move(carried)), 2);
}

TEST_F(chains, a_thread_keeps_no_more_blocks_than_the_limit) {
    std::thread([] {
        any_operation<int> chain = value(0);
        for (std::size_t i = 0; i < detail::link_memory::most_blocks + 100; ++i) chain = add_one(std::move(chain), 0);
        chain = value(0);
        EXPECT_LE(detail::link_memory::kept(), detail::link_memory::most_blocks);
        EXPECT_EQ(detail::link_memory::kept() != 0, detail::link_memory::keeps);
    }).join();
}

TEST_F(chains, a_link_may_hold_what_is_aligned_to_a_cache_line) {
    struct alignas(64) line {
        int numbers[16] = {7};
        bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
    };
    any_operation<int> sum = value(0);
    for (int i = 0; i < 20; ++i) {
        sum = std::move(sum).and_then(
            [held = line()](int x) { return value(x + (held.is_aligned() ? held.numbers[0] : 0)); });
    }
    EXPECT_EQ(run(std::move(sum)), 20 * 7);
}

}  // namespace sluice::chain_tests
