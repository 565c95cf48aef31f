// SPDX-License-Identifier: Apache-2.0
// Operations as senders, and schedulers, with a receiver as std::execution describes them.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "sluice/senders.hpp"
#include "sluice/sluice.hpp"
#include "support/gate.hpp"

namespace sluice::sender_tests {
namespace {

using numbers = std::vector<float>;

// What a receiver got. Each receiver gets one completion.
template <typename... Ts>
struct received {
    std::optional<std::tuple<Ts...>> values;
    std::exception_ptr failure;
    bool is_stopped = false;
    int calls = 0;
    std::thread::id thread;
    std::atomic<bool> is_done = false;

    void done() {
        ++calls;
        thread = std::this_thread::get_id();
        is_done = true;
        is_done.notify_one();
    }
    void wait() { is_done.wait(false); }
};

struct stoppable {
    std::stop_token token;
    // Not std::stop_token itself: that one has no member callback_type before C++26.
    struct as_asked : std::stop_token {
        template <typename F>
        using callback_type = std::stop_callback<F>;
    };
    as_asked query(execution::get_stop_token_t) const noexcept { return {token}; }
};

template <typename Env, typename... Ts>
struct receiving {
    using receiver_concept = execution::receiver_t;
    received<Ts...>* to;
    Env env = {};

    void set_value(Ts... values) && noexcept {
        to->values.emplace(std::move(values)...);
        to->done();
    }
    void set_error(std::exception_ptr failure) && noexcept {
        to->failure = std::move(failure);
        to->done();
    }
    void set_stopped() && noexcept {
        to->is_stopped = true;
        to->done();
    }
    Env get_env() const noexcept { return env; }
};

class senders : public testing::Test {
protected:
    static auto doubled(numbers x) {
        return upload(std::move(x)).and_then([](auto y) { return scale(std::move(y), 2); }).and_then(download);
    }

    runtime machine{{.cuda = false}};
    round_robin pool{machine.default_device(), 2};
};

using sent = decltype(as_sender(value(1), std::declval<scheduling_policy&>()));
static_assert(execution::sender<sent>);
static_assert(std::is_same_v<
              sent::completion_signatures,
              execution::completion_signatures<execution::set_value_t(int), execution::set_error_t(std::exception_ptr),
                                               execution::set_stopped_t()>>);
static_assert(execution::scheduler<executor_scheduler> && execution::scheduler<policy_scheduler>);

}  // namespace

TEST_F(senders, a_value_arrives) {
    received<numbers> result;
    auto state =
        execution::connect(as_sender(doubled({1, 2, 3}), pool), receiving<execution::empty_env, numbers>{&result});
    static_assert(execution::operation_state<decltype(state)>);
    execution::start(state);
    result.wait();
    EXPECT_EQ(result.calls, 1);
    ASSERT_TRUE(result.values);
    EXPECT_EQ(std::get<0>(*result.values), (numbers{2, 4, 6}));
}

TEST_F(senders, nothing_is_submitted_before_start) {
    int calls = 0;
    received<> result;
    auto state =
        execution::connect(as_sender(host_call([&] { ++calls; }), pool), receiving<execution::empty_env>{&result});
    sync(value(0), pool);
    EXPECT_EQ(calls, 0);
    execution::start(state);
    result.wait();
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(result.values);
}

TEST_F(senders, several_values_are_several_arguments) {
    received<numbers, int> result;
    auto state = execution::connect(as_sender(zip(doubled({1}), host_call([] { return 7; })), pool),
                                    receiving<execution::empty_env, numbers, int>{&result});
    execution::start(state);
    result.wait();
    ASSERT_TRUE(result.values);
    EXPECT_EQ(std::get<0>(*result.values), numbers{2});
    EXPECT_EQ(std::get<1>(*result.values), 7);
}

TEST_F(senders, a_failure_is_an_exception_pointer) {
    received<> result;
    auto state = execution::connect(as_sender(host_call([] { throw std::runtime_error("mine"); }), pool),
                                    receiving<execution::empty_env>{&result});
    execution::start(state);
    result.wait();
    ASSERT_TRUE(result.failure);
    EXPECT_FALSE(result.values);
    EXPECT_ANY_THROW(std::rethrow_exception(result.failure));
}

TEST_F(senders, what_submitting_throws_arrives_on_the_calling_thread) {
    received<numbers> result;
    auto wrong = value(3).and_then([](std::size_t size) { return upload(numbers{1, 2}, {size}).and_then(download); });
    auto state =
        execution::connect(as_sender(std::move(wrong), pool), receiving<execution::empty_env, numbers>{&result});
    execution::start(state);
    ASSERT_TRUE(result.is_done);
    EXPECT_EQ(result.thread, std::this_thread::get_id());
    EXPECT_THROW(std::rethrow_exception(result.failure), error);
}

TEST_F(senders, a_stop_before_the_start_submits_nothing) {
    std::stop_source source;
    source.request_stop();
    int calls = 0;
    received<> result;
    auto state = execution::connect(as_sender(host_call([&] { ++calls; }), pool),
                                    receiving<stoppable>{&result, {source.get_token()}});
    execution::start(state);
    EXPECT_TRUE(result.is_stopped);
    sync(host_call([] {}), pool);
    EXPECT_EQ(calls, 0);
}

TEST_F(senders, a_stop_ends_the_wait_while_the_device_is_held) {
    single_stream one(machine.default_device());
    test_support::gate held(one.next());
    std::stop_source source;
    received<numbers> result;
    auto state = execution::connect(as_sender(doubled({1, 2}), one),
                                    receiving<stoppable, numbers>{&result, {source.get_token()}});
    execution::start(state);
    EXPECT_FALSE(result.is_done);
    source.request_stop();
    result.wait();  // the gate is still closed
    EXPECT_TRUE(result.is_stopped);
    EXPECT_EQ(result.calls, 1);
}

TEST_F(senders, a_token_that_is_not_stopped_changes_nothing) {
    std::stop_source source;
    received<numbers> result;
    auto state =
        execution::connect(as_sender(doubled({4}), pool), receiving<stoppable, numbers>{&result, {source.get_token()}});
    execution::start(state);
    result.wait();
    source.request_stop();  // too late
    ASSERT_TRUE(result.values);
    EXPECT_FALSE(result.is_stopped);
    EXPECT_EQ(std::get<0>(*result.values), numbers{8});
}

TEST_F(senders, a_stop_at_any_moment_completes_once) {
    for (int round = 0; round < 200; ++round) {
        std::stop_source source;
        received<numbers> result;
        auto state = execution::connect(as_sender(doubled({1, 2}), pool),
                                        receiving<stoppable, numbers>{&result, {source.get_token()}});
        std::jthread other([&] { source.request_stop(); });
        execution::start(state);
        result.wait();
        other.join();
        EXPECT_EQ(result.calls, 1);
        EXPECT_NE(result.is_stopped, result.values.has_value());
        EXPECT_FALSE(result.failure);
    }
}

TEST_F(senders, an_executor_is_a_scheduler_of_its_threads) {
    thread_pool threads(1);
    const auto on = as_scheduler(threads);
    received<> result;
    auto scheduled = execution::schedule(on);
    EXPECT_EQ(execution::get_completion_scheduler<execution::set_value_t>(execution::get_env(scheduled)), on);
    auto state = execution::connect(scheduled, receiving<execution::empty_env>{&result});
    execution::start(state);
    result.wait();
    EXPECT_TRUE(result.values);
    EXPECT_NE(result.thread, std::this_thread::get_id());
}

TEST_F(senders, a_policy_is_a_scheduler_in_stream_order) {
    single_stream one(machine.default_device());
    const auto on = as_scheduler(one);
    received<> result;
    auto scheduled = execution::schedule(on);
    EXPECT_EQ(execution::get_completion_scheduler<execution::set_value_t>(execution::get_env(scheduled)), on);
    auto state = execution::connect(std::move(scheduled), receiving<execution::empty_env>{&result});
    {
        test_support::gate held(one.next());
        execution::start(state);
        EXPECT_FALSE(result.is_done);
    }
    result.wait();
    EXPECT_TRUE(result.values);
}

}  // namespace sluice::sender_tests
