// SPDX-License-Identifier: Apache-2.0
#include "serve/call_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "serve/support/fake_engine.hpp"

namespace sluice::serve::call_queue_tests {
namespace {

using namespace std::chrono_literals;
using clock = infer_call::clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::test_call;

const clock::time_point start = clock::now();

// Calls by numbers: their values say which they are.
class queue_of_calls {
public:
    explicit queue_of_calls(const model_config& config = {}) : queue("model 'm'", config) {}

    struct how {
        std::size_t priority = 0;
        std::optional<std::chrono::microseconds> timeout = {};
        std::size_t rows = 1;
        std::chrono::microseconds at{0};
        std::size_t length = 2;
    };
    std::shared_ptr<test_call> push(float number, const how& its) {
        auto call = std::make_shared<test_call>(std::vector<float>(its.rows * its.length, number),
                                                std::vector<std::size_t>{its.rows, its.length});
        call->priority = its.priority;
        call->timeout = its.timeout;
        queue.push({.call = call, .since = start + its.at, .rows = its.rows});
        return call;
    }
    std::shared_ptr<test_call> push(float number) { return push(number, {}); }

    static float number_of(const waiting_call& call) {
        float number = 0;
        std::memcpy(&number, call.call->inputs.front().bytes.data(), sizeof(number));
        return number;
    }
    static std::vector<float> numbers_of(const std::vector<waiting_call>& calls) {
        std::vector<float> numbers;
        for (const waiting_call& each : calls) numbers.push_back(number_of(each));
        return numbers;
    }

    next_batch look(const batch_rule& rule, std::chrono::microseconds at = 0us) {
        std::vector<waiting_call> left;
        const next_batch next = queue.look(rule, start + at, left);
        for (const waiting_call& each : left) left_out.push_back(number_of(each));
        return next;
    }
    // One call after the other.
    std::vector<float> all(std::chrono::microseconds at = 0us) {
        std::vector<float> order;
        while (true) {
            const std::vector<float> one = numbers_of(queue.take(look({}, at).calls));
            if (one.empty()) return order;
            order.push_back(one.front());
        }
    }

    call_queue queue;
    std::vector<float> left_out;
};

refusal refusal_from(queue_of_calls& calls, const queue_of_calls::how& its) {
    try {
        calls.push(9, its);
    } catch (const refusal& why) {
        return why;
    }
    ADD_FAILURE() << "nothing was refused";
    return {refusal_kind::failed, ""};
}

model_config three_levels() {
    model_config config;
    config.priority_levels = 3;
    config.default_priority = 2;
    return config;
}

TEST(call_queue, without_priorities_calls_leave_in_the_order_of_their_arrival) {
    queue_of_calls calls;
    for (const float each : {1.f, 2.f, 3.f}) calls.push(each);
    EXPECT_EQ(calls.queue.size(), 3U);
    EXPECT_THAT(calls.all(), ElementsAre(1, 2, 3));
    EXPECT_TRUE(calls.queue.empty());
}

TEST(call_queue, lower_numbers_come_first_and_calls_without_one_have_the_default) {
    queue_of_calls calls(three_levels());
    calls.push(1, {.priority = 3});
    calls.push(2);
    calls.push(3, {.priority = 1});
    calls.push(4, {.priority = 2});
    calls.push(5, {.priority = 1});
    EXPECT_THAT(calls.all(), ElementsAre(3, 5, 2, 4, 1));
}

TEST(call_queue, priorities_that_there_are_not_are_refused) {
    queue_of_calls none, three(three_levels());
    const refusal without = refusal_from(none, {.priority = 1});
    EXPECT_EQ(without.kind(), refusal_kind::bad_request);
    EXPECT_THAT(without.what(), HasSubstr("model 'm' has no priorities (priority_levels)"));
    EXPECT_THAT(refusal_from(three, {.priority = 4}).what(), HasSubstr("has the priorities 1 to 3"));
    EXPECT_TRUE(three.queue.empty());
}

TEST(call_queue, a_priority_without_room_refuses_and_others_take) {
    model_config config = three_levels();
    config.queue = 4;
    config.default_queue_policy.queue = 1;
    config.priority_queue_policy[1] = {.queue = 2};
    queue_of_calls calls(config);
    calls.push(1, {.priority = 3});
    const refusal third = refusal_from(calls, {.priority = 3});
    EXPECT_EQ(third.kind(), refusal_kind::queue_full);
    EXPECT_EQ(third.waiting(), 1U);
    EXPECT_THAT(third.what(), HasSubstr("the queue of priority 3 of model 'm' is full: 1 requests wait"));
    calls.push(2, {.priority = 1});
    calls.push(3, {.priority = 1});
    EXPECT_EQ(refusal_from(calls, {.priority = 1}).waiting(), 2U);
    calls.push(4);
    const refusal full = refusal_from(calls, {.priority = 2});
    EXPECT_EQ(full.waiting(), 4U);
    EXPECT_THAT(full.what(), HasSubstr("the queue of model 'm' is full: 4 requests wait"));
    EXPECT_THAT(calls.all(), ElementsAre(2, 3, 4, 1));
}

TEST(call_queue, calls_whose_time_is_over_are_left_out) {
    model_config config;
    config.default_queue_policy.timeout_us = 100;
    queue_of_calls calls(config);
    calls.push(1);
    calls.push(2, {.timeout = 50us});
    calls.push(3, {.timeout = 1000us});  // no longer than the policy's
    calls.push(4, {.at = 60us});
    EXPECT_EQ(calls.look({.joins = true, .rows = 8}, 50us).calls, 4U);  // not later than its time
    EXPECT_EQ(calls.look({.joins = true, .rows = 8}, 51us).calls, 3U);
    EXPECT_THAT(calls.left_out, ElementsAre(2));
    EXPECT_THAT(calls.all(101us), ElementsAre(4));
    EXPECT_THAT(calls.left_out, ElementsAre(2, 1, 3));
    EXPECT_TRUE(calls.queue.empty());
}

TEST(call_queue, a_policy_may_not_let_requests_name_a_time) {
    model_config config;
    config.default_queue_policy.allow_timeout_override = false;
    queue_of_calls calls(config);
    calls.push(1, {.timeout = 1us});
    EXPECT_THAT(calls.all(1h), ElementsAre(1));
}

TEST(call_queue, delayed_calls_come_after_those_of_their_priority_and_before_lower_ones) {
    model_config config = three_levels();
    config.priority_queue_policy[1] = {.timeout_action = timeout_action::delay, .timeout_us = 100};
    queue_of_calls calls(config);
    calls.push(1, {.priority = 1});
    calls.push(2, {.priority = 1});
    calls.push(3, {.priority = 2});
    calls.push(4, {.priority = 1, .at = 50us});
    EXPECT_THAT(calls.all(120us), ElementsAre(4, 1, 2, 3));
    EXPECT_EQ(calls.queue.delayed(), 2U);
    EXPECT_THAT(calls.left_out, IsEmpty());
}

TEST(call_queue, delayed_calls_stay_last_and_fill_a_batch) {
    model_config config;
    config.default_queue_policy = {.timeout_action = timeout_action::delay, .timeout_us = 10};
    queue_of_calls calls(config);
    for (const float each : {1.f, 2.f}) calls.push(each);
    EXPECT_EQ(calls.look({}, 20us).calls, 1U);
    calls.push(3, {.at = 20us});
    calls.push(4, {.at = 20us});
    const next_batch next = calls.look({.joins = true, .rows = 3}, 25us);
    EXPECT_THAT(queue_of_calls::numbers_of(calls.queue.take(next.calls)), ElementsAre(3, 4, 1));
    EXPECT_EQ(calls.queue.size(), 1U);
}

TEST(call_queue, the_models_time_holds_for_delayed_calls_too) {
    model_config config;
    config.timeout_us = 100;
    config.default_queue_policy = {.timeout_action = timeout_action::delay, .timeout_us = 10};
    queue_of_calls calls(config);
    calls.push(1);
    EXPECT_EQ(calls.look({}, 20us).calls, 1U);
    EXPECT_EQ(calls.look({}, 101us).calls, 0U);
    EXPECT_THAT(calls.left_out, ElementsAre(1));
}

TEST(call_queue, calls_that_are_not_wanted_are_left_out) {
    queue_of_calls calls;
    calls.push(1);
    const auto second = calls.push(2);
    calls.push(3);
    second->wanted = false;
    EXPECT_EQ(calls.look({.joins = true, .rows = 8}).calls, 2U);
    EXPECT_THAT(calls.left_out, ElementsAre(2));
    EXPECT_EQ(calls.queue.size(), 2U);
}

TEST(call_queue, a_batch_is_ready_when_it_cannot_grow) {
    queue_of_calls calls;
    EXPECT_FALSE(calls.look({.joins = true, .rows = 4}).is_ready);
    calls.push(1, {.rows = 3});
    EXPECT_FALSE(calls.look({.joins = true, .rows = 4}).is_ready);
    EXPECT_TRUE(calls.look({.joins = true, .rows = 3}).is_ready);
    EXPECT_TRUE(calls.look({.joins = true, .rows = 2}).is_ready);
    EXPECT_TRUE(calls.look({.joins = false}).is_ready);
    calls.push(2, {.rows = 2});  // does not fit
    const next_batch next = calls.look({.joins = true, .rows = 4});
    EXPECT_TRUE(next.is_ready);
    EXPECT_EQ(next.calls, 1U);
    EXPECT_EQ(calls.look({.joins = true, .rows = 5}).calls, 2U);
}

TEST(call_queue, calls_of_other_lengths_end_a_batch) {
    queue_of_calls calls;
    calls.push(1);
    calls.push(2, {.length = 3});
    const next_batch next = calls.look({.joins = true, .rows = 4});
    EXPECT_TRUE(next.is_ready);
    EXPECT_EQ(next.calls, 1U);
}

TEST(call_queue, a_batch_has_the_largest_preferred_number_of_rows_that_there_is) {
    const std::vector<std::size_t> preferred{2, 4, 8};
    const batch_rule rule{.joins = true, .rows = 16, .preferred = preferred};
    queue_of_calls calls;
    calls.push(1);
    EXPECT_FALSE(calls.look(rule).is_ready);
    EXPECT_EQ(calls.look(rule).calls, 1U);  // when the delay is over
    for (const float each : {2.f, 3.f, 4.f, 5.f, 6.f}) calls.push(each);
    const next_batch next = calls.look(rule);
    EXPECT_TRUE(next.is_ready);
    EXPECT_EQ(next.calls, 4U);
    for (int i = 0; i < 7; ++i) calls.push(7);
    EXPECT_EQ(calls.look(rule).calls, 8U);  // never more than the last
}

TEST(call_queue, requests_that_jump_over_a_preferred_number_wait_for_the_next) {
    const std::vector<std::size_t> preferred{4, 8};
    const batch_rule rule{.joins = true, .rows = 8, .preferred = preferred};
    queue_of_calls calls;
    calls.push(1, {.rows = 3});
    calls.push(2, {.rows = 3});
    EXPECT_FALSE(calls.look(rule).is_ready);
    calls.push(3, {.rows = 2});
    EXPECT_EQ(calls.look(rule).calls, 3U);
    EXPECT_TRUE(calls.look(rule).is_ready);
}

TEST(call_queue, says_when_the_first_time_is_over_and_since_when_the_oldest_waits) {
    queue_of_calls calls(three_levels());
    calls.push(1, {.priority = 2, .timeout = 500us, .at = 10us});
    calls.push(2, {.priority = 1, .at = 20us});
    calls.push(3, {.priority = 3, .timeout = 100us, .at = 30us});
    const next_batch two = calls.look({.joins = true, .rows = 2});
    EXPECT_EQ(two.oldest, start + 10us);
    EXPECT_EQ(two.changes_after, start + 510us);
    EXPECT_EQ(calls.look({.joins = true, .rows = 4}).changes_after, start + 130us);
    EXPECT_EQ(calls.look({}).changes_after, clock::time_point::max());
}

}  // namespace
}  // namespace sluice::serve::call_queue_tests
