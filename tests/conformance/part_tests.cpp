// SPDX-License-Identifier: Apache-2.0
// unzip and share: work that runs once and is shared by several operations. Each operation waits for it and receives
// its failure.
#include <optional>

#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::part_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class parts : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start).and_then([rounds = slow()](auto x) {
            return step(std::move(x), 4, rounds);
        });
    }

    parts() { sync(zip(work(0), work(1)), pool); }  // loads the kernels

    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, parts, testing::ValuesIn(enrolled_backends()), backend_name);

// A shared pending number; counts how often it is computed.
auto shared_number(std::atomic<int>& made, unsigned number) {
    return share(host_call([&made, number] { return ++made, number; }));
}

}  // namespace

TEST_P(parts, the_halves_of_an_unzip_may_run_on_different_threads_and_streams) {
    for (int round = 0; round < 20; ++round) {
        auto [left, right] = unzip(zip(work(1), work(2)));
        numbers first, second;
        {
            single_stream one(on), two(on);
            std::jthread other(
                [&, mine = std::move(left)]() mutable { first = sync(std::move(mine).and_then(download), one); });
            second = sync(std::move(right).and_then(download), two);
        }
        EXPECT_EQ(first, numbers(size, 7));
        EXPECT_EQ(second, numbers(size, 10));
    }
}

TEST_P(parts, an_unzip_runs_once) {
    int ran = 0;
    auto [a, b, c] = unzip(with_context([&](execution_context&) { return ++ran, value(1, 2, 3); }));
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(sync(std::move(c), pool), 3);
    EXPECT_EQ(sync(std::move(a), pool), 1);
    EXPECT_EQ(sync(std::move(b), pool), 2);
    EXPECT_EQ(ran, 1);
}

TEST_P(parts, a_dropped_half_is_freed_with_the_last_one) {
    const std::size_t before = bytes_in_use();
    {
        auto [left, right] = unzip(zip(work(1), work(2)));
        {
            const auto dropped = std::move(left);
        }
        EXPECT_EQ(sync(std::move(right).and_then(download), pool), numbers(size, 10));
        EXPECT_EQ(bytes_in_use(), before);
    }
    {
        auto [left, right] = unzip(zip(work(1), work(2)));
        EXPECT_EQ(sync(std::move(right).and_then(download), pool), numbers(size, 10));
        EXPECT_GT(bytes_in_use(), before);  // the left half may still be used
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(parts, an_unused_unzip_does_nothing) {
    const std::size_t before = bytes_in_use();
    bool ran = false;
    {
        const auto halves = unzip(with_context([&](execution_context&) { return ran = true, zip(work(1), work(2)); }));
    }
    EXPECT_FALSE(ran);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(parts, a_failure_of_the_whole_reaches_both_halves) {
    auto [left, right] = unzip(zip(failing_number("mine"), work(1)));
    auto first = spawn(std::move(left), pool);
    auto second = spawn(std::move(right), pool);
    EXPECT_EQ(failure_of(std::move(second)), "mine");
    EXPECT_EQ(failure_of(std::move(first)), "mine");
}

TEST_P(parts, a_failed_submission_throws_in_both_halves_and_leaks_nothing) {
    const std::size_t before = bytes_in_use();
    {
        auto [left, right] = unzip(zip(work(1), work(2).and_then(throwing())));
        EXPECT_EQ(failure_of([&] { sync(std::move(left), pool); }), "mine");
        EXPECT_EQ(failure_of([&] { spawn(std::move(right), pool); }), "mine");
    }
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(parts, halves_can_be_zipped_again) {
    auto [left, right] = unzip(zip(work(1), share(work(2))));
    auto together =
        zip(std::move(left), std::move(right)).and_then([](auto x, auto w) { return add(std::move(w), std::move(x)); });
    EXPECT_EQ(sync(std::move(together).and_then(download), pool), numbers(size, 17));
}

TEST_P(parts, a_shared_pending_value_is_opened_once_by_two_threads) {
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> made = 0;
        const auto number = shared_number(made, 42);
        std::optional<shared<unsigned>> first, second;
        {
            auto one = number, two = number;
            auto future = spawn(std::move(one), pool);
            auto other = spawn(std::move(two), pool);
            std::jthread opening([&] { first.emplace(std::move(future).get()); });
            second.emplace(std::move(other).get());
        }
        ASSERT_EQ(**first, 42u);
        ASSERT_EQ(&**first, &**second);  // one value for both
        ASSERT_EQ(made, 1);
    }
}

TEST_P(parts, a_shared_pending_value_reaches_host_calls_and_waiters) {
    std::atomic<int> made = 0;
    const auto number = shared_number(made, 20);
    auto one = number, two = number, three = number;
    auto sum = zip(std::move(one), std::move(two)).and_then([](auto x, auto y) {
        return host_call([](shared<unsigned> a, shared<unsigned> b) { return *a + *b; }, std::move(x), std::move(y));
    });
    EXPECT_EQ(sluice::sync(std::move(sum), pool), 40u);
    EXPECT_EQ(*sluice::sync(std::move(three), pool), 20u);
    EXPECT_EQ(made, 1);
}

TEST_P(parts, a_shared_operation_is_submitted_once_by_many_threads) {
    for (int round = 0; round < 20; ++round) {
        std::atomic<int> ran = 0;
        const auto weight = share(with_context([&](execution_context&) { return ++ran, work(1); }));
        {
            std::vector<std::jthread> threads;
            for (unsigned i = 0; i < 4; ++i) {
                threads.emplace_back([&, i, mine = weight]() mutable {
                    auto sum = std::move(mine).and_then([i](auto w) {
                        return full<unsigned>({size}, i).and_then([w](auto x) { return add(w, std::move(x)); });
                    });
                    EXPECT_EQ(sluice::sync(std::move(sum).and_then(download), pool), numbers(size, 7 + i));
                });
            }
        }
        EXPECT_EQ(ran, 1);
    }
}

TEST_P(parts, a_failure_of_shared_work_reaches_every_consumer_and_no_other) {
    const auto broken = share(failing_number("mine"));
    auto one = broken, two = broken, three = broken;
    bool used = false;
    auto first = spawn(std::move(one), pool);
    auto fine = spawn(work(1).and_then(download), pool);
    auto second = spawn(std::move(two).and_then(
                            [&](auto x) { return host_call([&](shared<unsigned>) { used = true; }, std::move(x)); }),
                        pool);
    auto third = spawn(zip(std::move(three), value(1)), pool);
    EXPECT_EQ(failure_of(std::move(third)), "mine");
    EXPECT_EQ(failure_of(std::move(second)), "mine");
    EXPECT_EQ(failure_of(std::move(first)), "mine");
    EXPECT_EQ(std::move(fine).get(), numbers(size, 7));
    EXPECT_FALSE(used);
    auto late = broken;
    EXPECT_EQ(failure_of([&] { sync(std::move(late), pool); }), "mine");
}

TEST_P(parts, a_failure_of_shared_work_reaches_a_reader_of_its_data_in_another_operation) {
    std::optional<shared<pending<unsigned>>> kept;
    const auto broken = share(failing_number("mine"));
    {
        auto one = broken;
        auto flag_condition = spawn(std::move(one).transform([&](auto x) { kept.emplace(x); }), pool);
        EXPECT_EQ(failure_of(std::move(flag_condition)), "mine");
    }
    bool used = false;
    auto reader = host_call([&](shared<unsigned>) { used = true; }, *kept);
    EXPECT_EQ(failure_of(spawn(std::move(reader), pool)), "mine");
    EXPECT_FALSE(used);
}

TEST_P(parts, each_consumer_may_recover_from_a_shared_failure_by_itself) {
    const auto broken = share(failing_number("mine"));
    auto one = broken, two = broken;
    auto recovered = std::move(one).and_then(
        [](auto x) { return host_call([](shared<unsigned> number) { return *number; }, std::move(x)); });
    EXPECT_EQ(sync(std::move(recovered).or_else([](std::exception_ptr) { return value(5u); }), pool), 5u);
    EXPECT_EQ(failure_of([&] { sync(std::move(two), pool); }), "mine");
}

TEST_P(parts, a_long_chain_of_shared_operations_keeps_nothing_of_completed_ones) {
    using number = share_operation<any_operation<int>>;
    number latest = share(any_operation<int>(value(0)));
    constexpr int length = 100'000;
    for (int i = 0; i < length; ++i) {
        auto before = latest;
        latest = share(any_operation<int>(std::move(before).transform([](shared<int> x) { return *x + 1; })));
        auto now = latest;
        ASSERT_EQ(*sync(std::move(now), pool), i + 1);
    }
}

}  // namespace sluice::conformance::part_tests
