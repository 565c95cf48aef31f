// SPDX-License-Identifier: Apache-2.0
// The arguments of a handler.
#include <chrono>

#include "asio/support/asio_test.hpp"
#include "conformance/expect_refused.hpp"

namespace sluice::conformance::result_tests {
namespace {

using namespace std::chrono_literals;

ASIO_SUITE(asio_results);

class number {
public:
    explicit number(int value) : value_(value) {}
    int value() const { return value_; }

private:
    int value_;
};

task<int> seven() { co_return 7; }
task<> broken() {
    throw std::runtime_error("mine");
    co_return;
}

}  // namespace

TEST_P(asio_results, a_value_is_given) {
    received<numbers> result;
    async_wait(spawn(work(3), pool), on_context(result.handler()));
    EXPECT_EQ(context.run(), 1u);
    EXPECT_EQ(result.calls, 1);
    EXPECT_EQ(text_of(result.failure), "");
    EXPECT_EQ(result.value, combined(3));
}

TEST_P(asio_results, an_operation_without_a_value_gives_only_the_exception) {
    int calls = 0;
    async_wait(spawn(host_call([] {}), pool), on_context([&](std::exception_ptr failure) {
                   ++calls;
                   EXPECT_EQ(failure, nullptr);
               }));
    context.run();
    EXPECT_EQ(calls, 1);
}

TEST_P(asio_results, several_values_are_several_arguments) {
    int calls = 0;
    auto both = zip(work(1), host_call([] { return 2; }));
    async_run(std::move(both), pool, on_context([&](std::exception_ptr failure, numbers first, int second) {
                  ++calls;
                  EXPECT_EQ(failure, nullptr);
                  EXPECT_EQ(first, combined(1));
                  EXPECT_EQ(second, 2);
              }));
    context.run();
    EXPECT_EQ(calls, 1);
}

TEST_P(asio_results, a_value_may_be_move_only) {
    received<std::unique_ptr<int>> result;
    async_run(host_call([] { return std::make_unique<int>(5); }), pool, on_context(result.handler()));
    context.run();
    ASSERT_TRUE(result.value && *result.value);
    EXPECT_EQ(**result.value, 5);
}

TEST_P(asio_results, a_value_may_stay_on_the_device) {
    received<tensor<unsigned>> result;
    async_run(upload(combined(4)), pool, on_context(result.handler()));
    context.run();
    ASSERT_TRUE(result.value);
    EXPECT_EQ(contents(std::move(*result.value), home), combined(4));
}

TEST_P(asio_results, a_type_without_a_default_constructor_is_given_as_an_optional) {
    received<std::optional<number>> result, failed;
    async_run(host_call([] { return number(6); }), pool, on_context(result.handler()));
    async_run(host_call([]() -> number { throw std::runtime_error("mine"); }), pool, on_context(failed.handler()));
    context.run();
    ASSERT_TRUE(result.value && *result.value);
    EXPECT_EQ((*result.value)->value(), 6);
    EXPECT_EQ(text_of(failed.failure), "mine");
    EXPECT_TRUE(failed.value && !*failed.value);
}

TEST_P(asio_results, a_failure_gives_an_exception_and_empty_values) {
    received<unsigned> result;
    async_run(failing_number("mine"), pool, on_context(result.handler()));
    context.run();
    EXPECT_EQ(text_of(result.failure), "mine");
    EXPECT_EQ(result.value, 0u);
}

TEST_P(asio_results, what_submitting_throws_reaches_the_handler) {
    received<numbers> result;
    auto refused = work(1).and_then([](pending<numbers>) -> decltype(work(1)) { throw std::runtime_error("mine"); });
    async_run(std::move(refused), pool, on_context(result.handler()));
    EXPECT_EQ(context.run(), 1u);
    EXPECT_EQ(text_of(result.failure), "mine");
    EXPECT_EQ(result.value, numbers());
}

TEST_P(asio_results, a_fault_of_the_device_reaches_the_handler) {
    NEEDS_A_GATE();
    received<numbers> result;
    gate held(home);
    async_wait(spawn(work(1), pool), on_context(result.handler()));
    on.poison(std::make_exception_ptr(device_error(errc::device_failed, "planted")));
    context.run();
    EXPECT_NE(text_of(result.failure).find("planted"), std::string::npos) << text_of(result.failure);
    held.open();
}

TEST_P(asio_results, a_future_that_has_given_its_value_already_is_refused) {
    received<numbers> result;
    auto future = spawn(work(1), pool);
    auto moved = std::move(future);
    async_wait(std::move(future), on_context(result.handler()));
    context.run();
    EXPECT_EQ(code_of(result.failure), errc::invalid_argument);
    EXPECT_EQ(std::move(moved).get(), combined(1));
}

TEST_P(asio_results, a_spawned_task_can_be_waited_for) {
    received<int> result;
    std::string failure;
    async_wait(spawn(seven(), here()), on_context(result.handler()));
    async_wait(spawn(broken(), here()), on_context([&](std::exception_ptr what) { failure = text_of(what); }));
    context.run();
    EXPECT_EQ(result.value, 7);
    EXPECT_EQ(failure, "mine");
}

TEST_P(asio_results, a_task_that_has_not_been_started_is_started) {
    received<numbers> result;
    async_wait(value_of(spawn(work(2), pool)), on_context(result.handler()));
    context.run();
    EXPECT_EQ(result.value, combined(2));
}

TEST_P(asio_results, an_operation_that_recovers_gives_what_it_recovered) {
    received<unsigned> spawned_one, run;
    const auto recovering = [] { return failing_number("mine").or_else([](std::exception_ptr) { return value(8u); }); };
    async_wait(spawn(recovering(), pool), on_context(spawned_one.handler()));
    async_run(recovering(), pool, on_context(run.handler()));
    context.run();
    EXPECT_EQ(spawned_one.value, 8u);
    EXPECT_EQ(run.value, 8u);
}

TEST_P(asio_results, an_operation_that_times_out_gives_its_own_error) {
    NEEDS_A_GATE();
    received<numbers> result;
    gate held(home);
    async_run(timeout(work(1), 1ms), pool, on_context(result.handler()));
    context.run();
    EXPECT_EQ(code_of(result.failure), errc::timed_out);
}

}  // namespace sluice::conformance::result_tests
