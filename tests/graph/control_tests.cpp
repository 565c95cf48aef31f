// SPDX-License-Identifier: Apache-2.0
// or_else recovers from failures and retry tries again; both act on what has really happened on the device.
#include <algorithm>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::control_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class control : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start).and_then([rounds = slow()](auto x) {
            return step(std::move(x), 4, rounds);
        });
    }

    control() { sync(zip(work(0), work(1)), pool); }  // loads the kernels

    round_robin pool{on, 2};
};
class recoveries : public control {};
class retries : public control {};
INSTANTIATE_TEST_SUITE_P(, recoveries, testing::ValuesIn(enrolled_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(, retries, testing::ValuesIn(enrolled_backends()), backend_name);

// A recovery that notes the failure it received, and returns a number.
struct recover {
    std::string* told;
    unsigned instead;
    auto operator()(const std::exception_ptr& failure) const {
        *told = failure_of([&] { std::rethrow_exception(failure); });
        return value(instead);
    }
};

auto broken_library_call() {
    return with_context([](execution_context& context) {
        context.stream().library_call(
            {"broken"}, {[](const native_stream&, const void*) { throw std::runtime_error("library"); }, nullptr, 0});
    });
}

unsigned twice(unsigned x) { return 2 * x; }

}  // namespace

TEST_P(recoveries, a_failure_of_a_host_call_is_recovered) {
    std::string told;
    EXPECT_EQ(sync(failing_number("mine").or_else(recover{&told, 7}), pool), 7u);
    EXPECT_EQ(told, "mine");
    EXPECT_EQ(spawn(failing_number("other").or_else(recover{&told, 8}), pool).get(), 8u);
    EXPECT_EQ(told, "other");
    EXPECT_EQ(sync_wait(spawn(failing_number("third").or_else(recover{&told, 9}), pool)), 9u);
    EXPECT_EQ(told, "third");
}

TEST_P(recoveries, a_failure_of_a_submission_is_recovered) {
    const std::size_t before = bytes_in_use();
    auto recovered = work(1).and_then(throwing()).or_else([this](std::exception_ptr) { return work(2); });
    EXPECT_EQ(sync(std::move(recovered).and_then(download), pool), numbers(size, 10));
    auto spawned_one = work(1).and_then(throwing()).or_else([this](std::exception_ptr) { return work(2); });
    EXPECT_EQ(spawn(std::move(spawned_one).and_then(download), pool).get(), numbers(size, 10));
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(recoveries, a_failure_of_a_library_call_is_recovered) {
    std::string told;
    const auto note = [&](const std::exception_ptr& failure) {
        told = failure_of([&] { std::rethrow_exception(failure); });
        return value();
    };
    sync(broken_library_call().or_else(note), pool);
    EXPECT_EQ(told, "library");
}

TEST_P(recoveries, too_little_memory_is_recovered) {
    const std::size_t before = bytes_in_use();
    constexpr std::size_t too_much = std::size_t{1} << 50;
    std::error_code why;
    auto operation = uninitialized<char>({too_much}).or_else([&](const std::exception_ptr& failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const out_of_memory& short_of) {
            why = short_of.code();
        }
        return uninitialized<char>({100});
    });
    EXPECT_EQ(sync(std::move(operation), pool).size(), 100u);
    EXPECT_EQ(why, errc::out_of_memory);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(recoveries, a_success_is_not_recovered) {
    bool called = false;
    auto fine = work(1).and_then(download).or_else([&](std::exception_ptr) { return called = true, value(numbers()); });
    EXPECT_EQ(sync(std::move(fine), pool), numbers(size, 7));
    EXPECT_FALSE(called);
}

TEST_P(recoveries, a_recovery_may_fail) {
    auto at_submission = failing_number("first").or_else(
        [](std::exception_ptr) -> any_operation<pending<unsigned>> { throw std::runtime_error("second"); });
    EXPECT_EQ(failure_of([&] { sync(std::move(at_submission), pool); }), "second");
    auto on_the_stream = failing_number("first").or_else([](std::exception_ptr) { return failing_number("third"); });
    EXPECT_EQ(failure_of(spawn(std::move(on_the_stream), pool)), "third");
}

TEST_P(recoveries, a_recovery_passes_a_failure_on_by_throwing_it_again) {
    auto passed_on = failing_number("mine").or_else(
        [](std::exception_ptr failure) -> any_operation<unsigned> { std::rethrow_exception(std::move(failure)); });
    EXPECT_EQ(failure_of(spawn(std::move(passed_on), pool)), "mine");
}

TEST_P(recoveries, what_follows_sees_the_recovered_value) {
    std::string told;
    auto chain =
        work(1).and_then([](auto) { return failing_number("mine"); }).or_else(recover{&told, 21}).and_then([](auto x) {
            return host_call(twice, std::move(x));
        });
    EXPECT_EQ(sync(std::move(chain), pool), 42u);
    EXPECT_EQ(told, "mine");
}

TEST_P(recoveries, what_follows_sees_the_value_that_needed_no_recovery) {
    std::string told;
    auto chain = host_call([] { return 4u; }).or_else(recover{&told, 21}).transform([](auto x) { return x; });
    EXPECT_EQ(sync(std::move(chain).and_then([](auto x) { return host_call(twice, std::move(x)); }), pool), 8u);
    EXPECT_EQ(told, "");
}

TEST_P(recoveries, a_failure_after_a_recovery_is_reported) {
    std::string told;
    auto chain =
        failing_number("first").or_else(recover{&told, 1}).and_then([](auto) { return failing_number("last"); });
    EXPECT_EQ(failure_of(spawn(std::move(chain), pool)), "last");
    EXPECT_EQ(told, "first");
}

TEST_P(recoveries, an_unrecovered_failure_is_reported_after_a_recovery) {
    // The chain's first part fails and nothing recovers it; the recovered failure is in the other branch.
    std::string told;
    auto chain = zip(failing_number("recovered").or_else(recover{&told, 1}), failing_number("not recovered"));
    EXPECT_EQ(failure_of(spawn(std::move(chain), pool)), "not recovered");
}

TEST_P(recoveries, parts_of_a_zip_are_recovered_independently) {
    std::string first, third;
    auto all = zip(failing_number("a").or_else(recover{&first, 1}), work(1).and_then(download),
                   failing_number("c").or_else(recover{&third, 3}), value(4));
    const auto [a, b, c, d] = sync(std::move(all), pool);
    EXPECT_EQ(a, 1u);
    EXPECT_EQ(b, numbers(size, 7));
    EXPECT_EQ(c, 3u);
    EXPECT_EQ(d, 4);
    EXPECT_EQ(first, "a");
    EXPECT_EQ(third, "c");
}

TEST_P(recoveries, a_zip_is_recovered_as_a_whole) {
    auto whole = zip(failing_number("mine"), work(1)).or_else([this](std::exception_ptr) {
        return zip(host_call([] { return 5u; }), work(2));
    });
    const auto [five, tensor] = sync(std::move(whole), pool);
    EXPECT_EQ(five, 5u);
    EXPECT_EQ(tensor.size(), size);
}

TEST_P(recoveries, a_recovery_may_have_a_recovery) {
    std::string inner, outer;
    auto nested = failing_number("first")
                      .or_else([&](std::exception_ptr) { return failing_number("second").or_else(recover{&inner, 1}); })
                      .and_then([](auto) { return failing_number("third"); })
                      .or_else(recover{&outer, 2});
    EXPECT_EQ(sync(std::move(nested), pool), 2u);
    EXPECT_EQ(inner, "second");
    EXPECT_EQ(outer, "third");
}

TEST_P(recoveries, a_later_failure_is_recovered_when_it_happens) {
    NEEDS_A_GATE();
    std::string told;
    single_stream one(on);
    gate held(one.next());
    auto future = spawn(failing_number("mine").or_else(recover{&told, 7}), one);
    EXPECT_FALSE(future.is_ready());
    EXPECT_EQ(told, "");
    held.open();
    EXPECT_EQ(std::move(future).get(), 7u);
    EXPECT_EQ(told, "mine");
}

TEST_P(recoveries, a_recovery_is_submitted_by_the_completion_thread_on_the_same_stream) {
    NEEDS_A_GATE();
    single_stream one(on);
    gate held(one.next());
    std::thread::id submitter;
    command_queue* queue = nullptr;
    auto operation = failing("mine").or_else([&](std::exception_ptr) {
        return with_context([&](execution_context& context) {
            submitter = std::this_thread::get_id();
            queue = &context.stream().queue();
        });
    });
    auto future = spawn(std::move(operation), one);
    held.open();
    std::move(future).get();
    EXPECT_NE(submitter, std::thread::id());
    EXPECT_NE(submitter, std::this_thread::get_id());
    EXPECT_EQ(queue, &one.next().queue());
}

TEST_P(recoveries, a_failed_operation_frees_all_its_buffers) {
    const std::size_t before = bytes_in_use();
    for (int i = 0; i < 20; ++i) {
        std::string told;
        auto failed =
            zip(work(1), failing_number("mine")).and_then([](auto x, auto) { return download(std::move(x)); });
        auto recovered = std::move(failed).or_else([](std::exception_ptr) { return value(numbers(3, 3)); });
        ASSERT_EQ(sync(std::move(recovered), pool), numbers(3, 3));
        ASSERT_EQ(bytes_in_use(), before);
    }
}

TEST_P(retries, an_operation_is_tried_until_it_succeeds) {
    int made = 0;
    auto operation = retry(5, [&] {
        const int now = ++made;
        return host_call([now]() -> int { return now < 3 ? throw std::runtime_error("not yet") : now; });
    });
    EXPECT_EQ(sync(std::move(operation), pool), 3);
    EXPECT_EQ(made, 3);
}

TEST_P(retries, the_last_failure_is_reported) {
    int made = 0;
    auto operation = retry(4, [&] { return failing("try " + std::to_string(++made)); });
    EXPECT_EQ(failure_of(spawn(std::move(operation), pool)), "try 4");
    EXPECT_EQ(made, 4);
}

TEST_P(retries, one_attempt_is_always_made) {
    for (const int attempts : {-3, 0, 1}) {
        int made = 0;
        auto operation = retry(attempts, [&] { return ++made, failing("mine"); });
        EXPECT_EQ(failure_of([&] { sync(std::move(operation), pool); }), "mine");
        EXPECT_EQ(made, 1) << attempts;
    }
}

TEST_P(retries, a_failure_that_must_not_be_retried_is_reported_at_once) {
    int made = 0;
    std::vector<std::string> asked;
    const auto again = [&](const std::exception_ptr& failure) {
        asked.push_back(failure_of([&] { std::rethrow_exception(failure); }));
        return asked.back() != "try 2";
    };
    auto operation = retry(10, [&] { return failing("try " + std::to_string(++made)); }, again);
    EXPECT_EQ(failure_of(spawn(std::move(operation), pool)), "try 2");
    EXPECT_EQ(asked, (std::vector<std::string>{"try 1", "try 2"}));
}

TEST_P(retries, failures_of_submissions_count_as_attempts) {
    int made = 0;
    auto operation = retry(3, [&] {
        if (++made < 3) throw std::runtime_error("not made");
        return work(1).and_then(download);
    });
    EXPECT_EQ(sync(std::move(operation), pool), numbers(size, 7));
    EXPECT_EQ(made, 3);
}

TEST_P(retries, many_failures_at_once_need_no_stack) {
    int made = 0;
    auto operation = retry(100'000, [&]() -> any_operation<int> {
        ++made;
        throw std::runtime_error("mine");
    });
    EXPECT_EQ(failure_of([&] { sync(std::move(operation), pool); }), "mine");
    EXPECT_EQ(made, 100'000);
}

TEST_P(retries, each_attempt_frees_what_it_used) {
    const std::size_t before = bytes_in_use();
    int made = 0;
    std::size_t most = 0;
    auto operation = retry(10, [&] {
        most = std::max(most, bytes_in_use());
        return ++made, zip(work(1), failing("mine"));
    });
    EXPECT_EQ(failure_of([&] { sync(std::move(operation), pool); }), "mine");
    EXPECT_EQ(most, before);
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(retries, a_retry_may_be_recovered_and_tried_again) {
    int made = 0;
    std::string told;
    auto inner = [&] { return retry(2, [&] { return failing_number("try " + std::to_string(++made)); }); };
    auto operation = retry(3, inner).or_else(recover{&told, 9});
    EXPECT_EQ(sync(std::move(operation), pool), 9u);
    EXPECT_EQ(made, 6);
    EXPECT_EQ(told, "try 6");
}

}  // namespace sluice::conformance::control_tests
