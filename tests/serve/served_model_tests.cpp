// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/served_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/support/fake_engine.hpp"
#include "sluice/base/run_guard.hpp"

namespace sluice::serve::served_model_tests {
namespace {

using namespace std::chrono_literals;
using testing::bad_number;
using testing::deadly_number;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::fake_model;
using ::testing::HasSubstr;
using testing::held;
using testing::named;
using testing::row_of;
using testing::test_call;

// A front end's thread that runs batches when the test says so.
class test_thread : public lent_thread {
public:
    void run_soon(std::shared_ptr<served_model> model) override { soon.push_back(std::move(model)); }
    void run() {
        for (const auto& each : std::exchange(soon, {})) each->run_waiting();
    }
    std::vector<std::shared_ptr<served_model>> soon;
};

struct serving {
    explicit serving(const model_config& config = {}, std::shared_ptr<fake_model> its = std::make_shared<fake_model>())
        : fake(std::move(its)), model(served_model::make("m", 1, fake, config)) {}

    std::shared_ptr<fake_model> fake;
    std::shared_ptr<served_model> model;
};

refusal refusal_from(const std::function<void()>& what) {
    try {
        what();
    } catch (const refusal& why) {
        return why;
    }
    ADD_FAILURE() << "nothing was refused";
    return {refusal_kind::failed, ""};
}

TEST(served_model, a_lone_request_runs_on_the_lent_thread) {
    serving s;
    test_thread thread;
    const auto call = row_of(3);
    ASSERT_TRUE(s.model->submit(call, &thread));
    EXPECT_FALSE(call->is_answered());
    ASSERT_EQ(thread.soon.size(), 1U);
    thread.run();
    EXPECT_THAT(call->get(), ElementsAre(6, 6));
    EXPECT_EQ(call->thread, std::this_thread::get_id());
    EXPECT_EQ(s.model->statistics().on_caller_thread, 1U);
}

std::size_t threads_of_process() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()));
}

// A thread that has been joined may still be there for a moment.
std::size_t threads_that_stay() {
    std::size_t found = threads_of_process();
    for (int same = 0, looks = 0; same < 50 && looks < 10'000; ++looks) {
        std::this_thread::sleep_for(1ms);
        const std::size_t now = threads_of_process();
        same = std::exchange(found, now) == now ? same + 1 : 0;
    }
    return found;
}

TEST(served_model, has_threads_from_the_first_batch_on_that_no_lent_thread_takes) {
    const std::size_t before = threads_that_stay();
    serving s({.instances = 3});
    test_thread thread;
    for (int i = 0; i < 10; ++i) {
        const auto call = row_of(1);
        s.model->submit(call, &thread);
        thread.run();
        EXPECT_THAT(call->get(), ElementsAre(2, 2));
    }
    EXPECT_EQ(threads_of_process(), before);
    const auto call = row_of(2);
    s.model->submit(call);
    EXPECT_THAT(call->get(), ElementsAre(4, 4));
    EXPECT_EQ(threads_of_process(), before + 3);
}

TEST(served_model, ends_a_call_whose_lent_thread_never_runs) {
    serving s;
    test_thread thread;
    const auto call = row_of(3);
    s.model->submit(call, &thread);
    s.model->close();
    EXPECT_THAT(call->get(), ElementsAre(6, 6));
    thread.run();  // which finds nothing
}

TEST(served_model, what_does_not_fit_into_the_lent_batch_is_computed_too) {
    serving s({.max_batch = 2});
    test_thread thread;
    std::vector<std::shared_ptr<test_call>> calls;
    for (int i = 0; i < 7; ++i) {
        calls.push_back(row_of(static_cast<float>(i)));
        s.model->submit(calls.back(), &thread);
    }
    thread.run();
    for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i]->get().front(), 2 * static_cast<float>(i));
}

TEST(served_model, gives_back_the_memory_of_an_idle_network_once_until_it_is_asked) {
    using std::chrono::milliseconds;
    serving s;
    s.model->give_back_if_idle(std::chrono::hours(1));
    EXPECT_EQ(s.fake->given_back, 0);
    s.model->give_back_if_idle(milliseconds(0));
    s.model->give_back_if_idle(milliseconds(0));
    EXPECT_EQ(s.fake->given_back, 1);
    const auto call = row_of(3);
    s.model->submit(call);
    EXPECT_THAT(call->get(), ElementsAre(6, 6));
    s.model->give_back_if_idle(std::chrono::hours(1));
    EXPECT_EQ(s.fake->given_back, 1);
    s.model->give_back_if_idle(milliseconds(0));
    EXPECT_EQ(s.fake->given_back, 2);
}

TEST(served_model, requests_that_arrive_before_the_lent_thread_runs_are_one_batch) {
    serving s;
    test_thread thread;
    std::vector<std::shared_ptr<test_call>> calls;
    for (int i = 0; i < 5; ++i) {
        calls.push_back(row_of(static_cast<float>(i)));
        s.model->submit(calls.back(), &thread);
    }
    EXPECT_EQ(thread.soon.size(), 1U);
    s.fake->hold();
    s.fake->open();
    thread.run();
    EXPECT_THAT(s.fake->batches(), ElementsAre(5));
    for (int i = 0; i < 5; ++i) {
        const float y = 2 * static_cast<float>(i);
        EXPECT_THAT(calls[static_cast<std::size_t>(i)]->get(), ElementsAre(y, y));
    }
}

TEST(served_model, long_batches_do_not_run_on_the_lent_thread) {
    serving s({.caller_thread_us = 0});
    test_thread thread;
    const auto call = row_of(1);
    s.model->submit(call, &thread);
    EXPECT_TRUE(thread.soon.empty());
    EXPECT_THAT(call->get(), ElementsAre(2, 2));
    EXPECT_NE(call->thread, std::this_thread::get_id());
}

TEST(served_model, requests_that_wait_are_joined_up_to_the_largest_batch) {
    serving s({.max_batch = 4});
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        calls.push_back(row_of(0));
        s.model->submit(calls.back());
        s.fake->wait_until_running();
        for (int i = 1; i <= 6; ++i) {
            calls.push_back(row_of(static_cast<float>(i)));
            s.model->submit(calls.back());
        }
        EXPECT_EQ(s.model->statistics().waiting, 6U);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i]->get().front(), 2 * static_cast<float>(i));
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 4, 2));
    s.model->close();
    const model_statistics its = s.model->statistics();
    EXPECT_EQ(its.rows, 7U);
    EXPECT_EQ(its.batches, 3U);
    EXPECT_EQ(its.success.count, 7U);
    EXPECT_EQ(its.by_rows.at(4).infer.count, 1U);
}

TEST(served_model, requests_of_several_rows_get_their_own) {
    serving s;
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        for (const std::size_t rows : {2, 0, 3}) {
            std::vector<float> values(rows * 2, static_cast<float>(rows));
            s.model->submit(calls.emplace_back(std::make_shared<test_call>(values, std::vector<std::size_t>{rows, 2})));
        }
    }
    EXPECT_THAT(calls[1]->get(), ElementsAre(4, 4, 4, 4));
    EXPECT_THAT(calls[2]->get(), ElementsAre());
    EXPECT_THAT(calls[3]->get(), ElementsAre(6, 6, 6, 6, 6, 6));
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 5));
}

TEST(served_model, requests_of_other_lengths_are_not_joined) {
    serving s({}, std::make_shared<fake_model>(2.f, std::vector{named("batch"), named("n")}));
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        for (const std::size_t length : {2, 3, 3}) {
            s.model->submit(calls.emplace_back(
                std::make_shared<test_call>(std::vector<float>(length, 1.f), std::vector<std::size_t>{1, length})));
        }
    }
    for (const auto& each : calls) each->get();
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 1, 2));
}

TEST(served_model, a_model_without_a_free_first_dimension_computes_one_by_one) {
    serving s({}, std::make_shared<fake_model>(2.f, std::vector{testing::of(1), testing::of(2)}));
    EXPECT_EQ(s.model->max_batch(), 1U);
    EXPECT_THAT(s.model->joins_because(), HasSubstr("no dimension of any length"));
    EXPECT_THROW(serving({.max_batch = 8}, std::make_shared<fake_model>(2.f, std::vector{testing::of(1)})), error);
}

TEST(served_model, rows_of_which_nothing_is_proven_are_joined_only_where_the_configuration_says_so) {
    const auto fake = std::make_shared<fake_model>();
    fake->independence = {.node = "node \"max\" (ReduceMax)", .op = "ReduceMax", .why = "computes one number"};
    serving s({}, fake);
    EXPECT_EQ(s.model->max_batch(), 1U);
    EXPECT_THAT(s.model->joins_because(), HasSubstr("not proven that rows are independent: node \"max\" (ReduceMax)"));
    const serving promised({.max_batch = 8}, fake);
    EXPECT_EQ(promised.model->max_batch(), 8U);
    EXPECT_THAT(promised.model->joins_because(), HasSubstr("the configuration says so; it is not proven"));
}

TEST(served_model, rows_along_another_axis_than_the_first_are_not_joined) {
    const auto fake = std::make_shared<fake_model>();
    fake->independence = {.is_proven = true, .input_axes = {1}, .output_axes = {0}};
    serving s({}, fake);
    EXPECT_EQ(s.model->max_batch(), 1U);
    EXPECT_THAT(s.model->joins_because(), HasSubstr("not along the first dimensions"));
    try {
        serving wrong({.max_batch = 8}, fake);
        FAIL() << "batches were accepted";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("batches of 8"));
    }
}

// Of more than three rows it gives one output.
class summing_model final : public fake_model {
public:
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::vector<nn::any_tensor> made = fake_model::run(std::move(inputs));
        if (made.front().shape().front() <= 3) return made;
        return {nn::any_tensor(std::vector<float>(2), std::vector<std::size_t>{1, 2})};
    }
};

TEST(served_model, a_batch_that_loses_rows_is_computed_one_by_one_and_none_is_joined_after_it) {
    serving s({}, std::make_shared<summing_model>());
    EXPECT_EQ(s.model->max_batch(), 64U);
    const std::string before = s.model->joins_because(), after = "an output did not have the rows of its batch";
    EXPECT_THAT(before, HasSubstr("the graph shows that rows are independent"));
    std::atomic<bool> ends{false};
    std::thread looks([&] {  // as the statistics do
        while (!ends) {
            const std::string now = s.model->joins_because();
            EXPECT_TRUE(now == before || now == after) << now;
        }
    });
    for (int round = 0; round < 2; ++round) {
        std::vector<std::shared_ptr<test_call>> calls;
        {
            const held gate(*s.fake);
            s.model->submit(calls.emplace_back(row_of(0)));
            s.fake->wait_until_running();
            for (int i = 1; i < 5; ++i) s.model->submit(calls.emplace_back(row_of(static_cast<float>(i))));
        }
        for (int i = 0; i < 5; ++i) {
            const auto twice = static_cast<float>(2 * i);
            EXPECT_THAT(calls[static_cast<std::size_t>(i)]->get(), ElementsAre(twice, twice));
        }
        if (round == 0) {
            EXPECT_THAT(s.fake->batches(), ElementsAre(1, 4, 1, 1, 1, 1));
        } else {
            EXPECT_THAT(s.fake->batches(), ElementsAre(1, 1, 1, 1, 1));
        }
    }
    ends = true;
    looks.join();
    EXPECT_EQ(s.model->joins_because(), after);
}

TEST(served_model, a_wrong_request_does_not_fail_the_others_of_its_batch) {
    serving s;
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        for (const float value : {1.f, bad_number, 2.f}) s.model->submit(calls.emplace_back(row_of(value)));
    }
    EXPECT_THAT(calls[1]->get(), ElementsAre(2, 2));
    EXPECT_THAT(calls[3]->get(), ElementsAre(4, 4));
    const refusal why = refusal_from([&] { calls[2]->get(); });
    EXPECT_EQ(why.kind(), refusal_kind::bad_request);
    EXPECT_THAT(why.what(), HasSubstr("13 is out of range"));
}

// As worker processes, of which none can start.
class unavailable_model : public fake_model {
public:
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::vector<nn::any_tensor> made = fake_model::run(std::move(inputs));
        if (fails_batches && made.front().shape().front() > 1) throw error(errc::out_of_range, "a worker has ended");
        if (is_unavailable) throw refusal::for_now("nothing computes");
        return made;
    }
    std::atomic<bool> is_unavailable{false}, fails_batches{false};
};

TEST(served_model, a_batch_for_which_nothing_computes_is_not_tried_one_by_one) {
    using sizes = std::vector<std::size_t>;
    const auto its = std::make_shared<unavailable_model>();
    serving s({}, its);
    its->is_unavailable = true;
    for (const bool fails_first : {false, true}) {
        std::vector<std::shared_ptr<test_call>> calls;
        {
            const held gate(*its);
            its->fails_batches = fails_first;
            s.model->submit(calls.emplace_back(row_of(0)));
            its->wait_until_running();
            for (const float value : {1.f, 2.f, 3.f}) s.model->submit(calls.emplace_back(row_of(value)));
        }
        for (const auto& each : calls) EXPECT_EQ(refusal_from([&] { each->get(); }).kind(), refusal_kind::unavailable);
        EXPECT_THAT(its->batches(), ElementsAreArray(fails_first ? sizes{1, 3, 1} : sizes{1, 3}));
    }
    EXPECT_EQ(s.model->statistics().fail.count, 8U);
}

TEST(served_model, late_requests_are_not_computed) {
    serving s({.max_batch = 1});
    std::shared_ptr<test_call> first = row_of(0), late = row_of(1), patient = row_of(2);
    late->timeout = 1ms;
    patient->timeout = 1h;
    {
        const held gate(*s.fake);
        s.model->submit(first);
        s.fake->wait_until_running();
        s.model->submit(late);
        s.model->submit(patient);
        std::this_thread::sleep_for(2ms);
    }
    EXPECT_EQ(refusal_from([&] { late->get(); }).kind(), refusal_kind::late);
    EXPECT_THAT(patient->get(), ElementsAre(4, 4));
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 1));
    EXPECT_EQ(s.model->statistics().refused_late, 1U);
}

TEST(served_model, calls_that_are_not_wanted_are_not_computed) {
    serving s;
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        for (const float value : {1.f, 2.f, 3.f}) s.model->submit(calls.emplace_back(row_of(value)));
        calls[2]->wanted = false;
    }
    EXPECT_THAT(calls[3]->get(), ElementsAre(6, 6));
    EXPECT_EQ(refusal_from([&] { calls[2]->get(); }).kind(), refusal_kind::cancelled);
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 2));
    s.model->close();
    EXPECT_EQ(s.model->statistics().cancelled, 1U);
    EXPECT_EQ(s.model->statistics().success.count, 3U);
}

// Both are in the batch that fails. When its calls are computed alone, one is late and the client of the other has
// gone.
TEST(served_model, a_failed_batch_is_repeated_without_those_that_are_late_or_not_wanted) {
    serving s({.max_batch = 3, .max_delay_us = 10'000'000});
    std::shared_ptr<test_call> bad = row_of(bad_number), late = row_of(1), unwanted = row_of(2);
    late->timeout = 500ms;
    {
        const held gate(*s.fake);
        for (const auto& each : {bad, late, unwanted}) s.model->submit(each);
        s.fake->wait_until_running();
        unwanted->wanted = false;
        std::this_thread::sleep_for(501ms);
    }
    EXPECT_EQ(refusal_from([&] { bad->get(); }).kind(), refusal_kind::bad_request);
    EXPECT_EQ(refusal_from([&] { late->get(); }).kind(), refusal_kind::late);
    EXPECT_EQ(refusal_from([&] { unwanted->get(); }).kind(), refusal_kind::cancelled);
    s.model->close();
    EXPECT_THAT(s.fake->batches(), ElementsAre(3, 1));
    EXPECT_EQ(s.model->statistics().refused_late, 1U);
    EXPECT_EQ(s.model->statistics().cancelled, 1U);
}

TEST(served_model, the_configured_time_is_the_longest_of_a_request) {
    // Long enough that the first request is begun in time on a busy machine.
    serving s({.max_batch = 1, .timeout_us = 500'000});
    std::shared_ptr<test_call> first = row_of(0), late = row_of(1);
    {
        const held gate(*s.fake);
        s.model->submit(first);
        s.fake->wait_until_running();
        s.model->submit(late);
        std::this_thread::sleep_for(510ms);
    }
    EXPECT_EQ(refusal_from([&] { late->get(); }).kind(), refusal_kind::late);
}

TEST(served_model, a_full_queue_refuses_with_its_length) {
    serving s({.queue = 2});
    std::vector<std::shared_ptr<test_call>> calls;
    const held gate(*s.fake);
    s.model->submit(calls.emplace_back(row_of(0)));
    s.fake->wait_until_running();
    s.model->submit(calls.emplace_back(row_of(1)));
    s.model->submit(calls.emplace_back(row_of(2)));
    const refusal why = refusal_from([&] { s.model->submit(row_of(3)); });
    EXPECT_EQ(why.kind(), refusal_kind::queue_full);
    EXPECT_EQ(why.waiting(), 2U);
    EXPECT_THAT(why.what(), HasSubstr("2 requests wait"));
    EXPECT_EQ(s.model->statistics().refused_full, 1U);
    const auto urgent = row_of(4);
    urgent->priority = 1;  // which the model does not have: it is wrong, whatever the queue is
    EXPECT_EQ(refusal_from([&] { s.model->submit(urgent); }).kind(), refusal_kind::bad_request);
    EXPECT_EQ(s.model->statistics().refused_full, 1U);
}

TEST(served_model, a_full_queue_refuses_a_request_before_it_is_read) {
    serving s({.queue = 1});
    std::vector<std::shared_ptr<test_call>> calls;
    test_call unread({}, {0});
    s.model->require_room(unread);  // there is room
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        s.model->require_room(unread);
        s.model->submit(calls.emplace_back(row_of(1)));
        const refusal why = refusal_from([&] { s.model->require_room(unread); });
        EXPECT_EQ(why.kind(), refusal_kind::queue_full);
        EXPECT_EQ(why.waiting(), 1U);
        EXPECT_STREQ(why.what(), refusal_from([&] { s.model->submit(row_of(2)); }).what());
        EXPECT_EQ(s.model->statistics().refused_full, 2U);
        EXPECT_NE(unread.so_far.queued, infer_call::clock::time_point());
    }
    for (const auto& each : calls) each->get();
    s.model->require_room(unread);
    EXPECT_EQ(s.model->statistics().refused_full, 2U);
}

// A front end finds the model that follows it.
TEST(served_model, a_full_queue_of_a_model_that_closes_refuses_nothing) {
    serving s({.queue = 1});
    std::vector<std::shared_ptr<test_call>> calls;
    test_call unread({}, {0});
    std::thread closes;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        s.model->submit(calls.emplace_back(row_of(1)));
        closes = std::thread([&] { s.model->close(); });
        while (s.model->is_ready()) std::this_thread::yield();
        EXPECT_NO_THROW(s.model->require_room(unread));
        EXPECT_FALSE(s.model->submit(row_of(2)));
    }
    closes.join();
}

TEST(served_model, close_answers_what_was_accepted_and_takes_no_more) {
    serving s;
    test_thread thread;
    std::vector<std::shared_ptr<test_call>> calls;
    s.model->submit(calls.emplace_back(row_of(0)), &thread);  // a lent thread that never comes
    s.model->submit(calls.emplace_back(row_of(1)), &thread);
    s.model->close();
    for (const auto& each : calls) EXPECT_TRUE(each->is_answered());
    EXPECT_FALSE(s.model->submit(row_of(2)));
    EXPECT_FALSE(s.model->is_ready());
    thread.run();  // it comes late: nothing is left
    std::weak_ptr<test_call> last = calls.back();
    calls.clear();
    EXPECT_TRUE(last.expired());
}

// Of a model whose delay is longer than the test may take.
void expect_two_as_one_batch_soon(serving& s) {
    s.fake->hold();
    s.fake->open();
    const auto begin = std::chrono::steady_clock::now();
    std::shared_ptr<test_call> first = row_of(0), second = row_of(1);
    s.model->submit(first);
    s.model->submit(second);
    first->get();
    second->get();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    EXPECT_THAT(s.fake->batches(), ElementsAre(2));
}

TEST(served_model, a_delay_waits_for_a_batch_but_not_for_more_than_a_full_one) {
    serving s({.max_batch = 2, .max_delay_us = 10'000'000});
    expect_two_as_one_batch_soon(s);
}

TEST(served_model, a_delay_ends) {
    serving s({.max_batch = 2, .max_delay_us = 1000});
    const auto call = row_of(1);
    s.model->submit(call);
    EXPECT_THAT(call->get(), ElementsAre(2, 2));
}

TEST(served_model, a_preferred_batch_does_not_wait_for_the_delay) {
    serving s({.max_batch = 8, .preferred_batch_size = {2, 4}, .max_delay_us = 10'000'000});
    expect_two_as_one_batch_soon(s);
}

TEST(served_model, preferred_batches_are_those_that_the_queue_fills) {
    serving s({.max_batch = 8, .preferred_batch_size = {2, 4}});
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        for (int i = 0; i < 7; ++i) s.model->submit(calls.emplace_back(row_of(1)));
    }
    for (const auto& each : calls) each->get();
    EXPECT_THAT(s.fake->batches(), ElementsAre(1, 4, 2, 1));
    EXPECT_THROW(serving({.preferred_batch_size = {65}}), error);
    EXPECT_THROW(serving({.preferred_batch_size = {2}}, std::make_shared<fake_model>(2.f, std::vector{testing::of(1)})),
                 error);
}

TEST(served_model, a_request_that_waits_for_others_learns_in_time_that_its_own_is_over) {
    serving s({.max_batch = 8, .max_delay_us = 10'000'000});
    const auto begin = std::chrono::steady_clock::now();
    const auto call = row_of(1);
    call->timeout = 1ms;
    s.model->submit(call);
    EXPECT_EQ(refusal_from([&] { call->get(); }).kind(), refusal_kind::late);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    s.model->close();
    EXPECT_EQ(s.model->statistics().refused_late, 1U);
}

TEST(served_model, urgent_requests_are_computed_first) {
    serving s({.max_batch = 1, .priority_levels = 2, .default_priority = 2});
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*s.fake);
        s.model->submit(calls.emplace_back(row_of(0)));
        s.fake->wait_until_running();
        s.model->submit(calls.emplace_back(row_of(1)));
        calls.push_back(row_of(2));
        calls.back()->priority = 1;
        s.model->submit(calls.back());
    }
    calls[1]->get();
    EXPECT_TRUE(calls[2]->is_answered());  // before the one that came before it
    const auto wrong = row_of(3);
    wrong->priority = 3;
    EXPECT_EQ(refusal_from([&] { s.model->submit(wrong); }).kind(), refusal_kind::bad_request);
}

TEST(served_model, delayed_requests_are_computed_last_and_counted) {
    serving s({.max_batch = 1,
               .default_queue_policy = {.timeout_action = timeout_action::delay, .allow_timeout_override = true}});
    std::shared_ptr<test_call> first = row_of(0), delayed = row_of(1), other = row_of(2);
    delayed->timeout = 1ms;
    {
        const held gate(*s.fake);
        s.model->submit(first);
        s.fake->wait_until_running();
        s.model->submit(delayed);
        s.model->submit(other);
        std::this_thread::sleep_for(2ms);
    }
    EXPECT_THAT(delayed->get(), ElementsAre(2, 2));
    EXPECT_TRUE(other->is_answered());
    EXPECT_EQ(s.model->statistics().delayed, 1U);
    EXPECT_EQ(s.model->statistics().refused_late, 0U);
}

TEST(served_model, a_slow_model_holds_up_no_other) {
    serving slow, fast;
    const auto waits = row_of(1), answered = row_of(2);
    const held gate(*slow.fake);
    slow.model->submit(waits);
    slow.fake->wait_until_running();
    fast.model->submit(answered);
    EXPECT_THAT(answered->get(), ElementsAre(4, 4));
    EXPECT_FALSE(waits->is_answered());
}

TEST(served_model, instances_compute_at_the_same_time) {
    serving s({.max_batch = 1, .instances = 2});
    const auto left = row_of(1), right = row_of(2);
    {
        const held gate(*s.fake);
        s.model->submit(left);
        s.model->submit(right);
        while (s.fake->batches().size() != 2) std::this_thread::yield();  // both are in run()
    }
    left->get();
    right->get();
}

TEST(served_model, after_a_failure_of_the_device_it_is_not_ready) {
    serving s;
    const auto deadly = row_of(deadly_number);
    s.model->submit(deadly);
    EXPECT_EQ(refusal_from([&] { deadly->get(); }).kind(), refusal_kind::failed);
    s.model->close();  // the failure is noted by now
    serving again;
    const auto other = row_of(deadly_number);
    again.model->submit(other);
    EXPECT_THROW(other->get(), refusal);
    while (again.model->is_ready()) std::this_thread::yield();
    EXPECT_EQ(refusal_from([&] { again.model->submit(row_of(1)); }).kind(), refusal_kind::unavailable);
}

// Its output has more dimensions than an answer may have.
class deep_model final : public fake_model {
public:
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor>) const override {
        return {nn::any_tensor(std::vector<float>(1), std::vector<std::size_t>(tensor_shape::most_dimensions + 1, 1))};
    }
};

TEST(served_model, an_output_with_too_many_dimensions_is_refused) {
    serving s({}, std::make_shared<deep_model>());
    const auto call = row_of(1);
    ASSERT_TRUE(s.model->submit(call));
    const refusal why = refusal_from([&] { call->get(); });
    EXPECT_EQ(why.kind(), refusal_kind::failed);
    EXPECT_THAT(why.why(), HasSubstr("output 'y' has 17 dimensions; an answer has at most 16"));
}

struct wrong_input {
    const char* what;
    io::dtype type;
    std::vector<std::size_t> shape;
    std::size_t bytes;
    const char* says;
};
class wrong_inputs : public ::testing::TestWithParam<wrong_input> {};

TEST_P(wrong_inputs, are_refused_before_they_are_queued) {
    static const std::vector<std::byte> memory(1024);
    serving s;
    const auto call = row_of(0);
    call->inputs = {{GetParam().type, tensor_shape(GetParam().shape), std::span(memory).first(GetParam().bytes)}};
    const refusal why = refusal_from([&] { s.model->submit(call); });
    EXPECT_EQ(why.kind(), refusal_kind::bad_request);
    EXPECT_THAT(why.what(), HasSubstr(GetParam().says));
    EXPECT_EQ(s.model->statistics().waiting, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    all, wrong_inputs,
    ::testing::Values(wrong_input{"type", io::dtype::i64, {1, 2}, 16, "the datatype is INT64; the model takes FP32"},
                      wrong_input{"rank", io::dtype::f32, {2}, 8, "the shape is [2]; the model takes [batch, 2]"},
                      wrong_input{
                          "length", io::dtype::f32, {1, 3}, 12, "the shape is [1, 3]; the model takes [batch, 2]"},
                      wrong_input{"few_bytes", io::dtype::f32, {2, 2}, 8, "takes 16 bytes; the data has 8"},
                      wrong_input{"many_bytes", io::dtype::f32, {1, 2}, 12, "takes 8 bytes; the data has 12"},
                      wrong_input{"overflow", io::dtype::f32, {std::size_t{1} << 62, 2}, 0, "is too large"}),
    [](const auto& each) { return each.param.what; });

// Its cost is in its numbers: it takes one step after the other until its caller says that it shall end.
class endless_model : public fake_model {
public:
    static constexpr float endless_number = 77;

    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        if (inputs.front().values<float>().front() != endless_number) return fake_model::run(std::move(inputs));
        is_running = true;
        while (!may_end) run_guard::check();
        return fake_model::run(std::move(inputs));
    }

    std::atomic<bool> may_end{false};
    mutable std::atomic<bool> is_running{false};
};

TEST(served_model, a_batch_that_takes_long_leaves_the_lent_thread_and_is_answered) {
    const auto fake = std::make_shared<endless_model>();
    const serving s({}, fake);
    test_thread thread;
    const auto call = row_of(endless_model::endless_number);
    s.model->submit(call, &thread);
    ASSERT_EQ(thread.soon.size(), 1U);
    thread.run();  // returns, though the run has not ended
    EXPECT_FALSE(call->is_answered());
    fake->may_end = true;
    EXPECT_THAT(call->get(), ElementsAre(154, 154));
    EXPECT_NE(call->thread, std::this_thread::get_id());
    // From now on it is not lent a thread.
    const auto next = row_of(1);
    s.model->submit(next, &thread);
    EXPECT_TRUE(thread.soon.empty());
    EXPECT_THAT(next->get(), ElementsAre(2, 2));
}

TEST(served_model, a_run_ends_when_its_client_has_gone) {
    const auto fake = std::make_shared<endless_model>();
    const serving s({.caller_thread_us = 0}, fake);
    const auto call = row_of(endless_model::endless_number);
    s.model->submit(call);
    while (!fake->is_running) std::this_thread::yield();
    call->wanted = false;
    EXPECT_EQ(refusal_from([&] { call->get(); }).kind(), refusal_kind::cancelled);
    s.model->close();  // returns when the run is over, and counted
    EXPECT_EQ(s.model->statistics().cancelled, 1U);
    EXPECT_EQ(s.model->statistics().fail.count, 0U);
}

TEST(served_model, a_model_that_closes_waits_for_a_batch_that_has_left_a_lent_thread) {
    const auto fake = std::make_shared<endless_model>();
    const serving s({}, fake);
    test_thread thread;
    const auto call = row_of(endless_model::endless_number);
    s.model->submit(call, &thread);
    std::jthread closes([&] { s.model->close(); });
    std::this_thread::sleep_for(20ms);  // its own threads have nothing to do meanwhile
    thread.run();
    fake->may_end = true;
    EXPECT_THAT(call->get(), ElementsAre(154, 154));
}

TEST(served_model, threads_that_submit_while_it_closes_get_an_answer_or_no) {
    for (int round = 0; round < 20; ++round) {
        serving s;
        std::atomic<int> accepted{0}, answered{0};
        std::vector<std::thread> clients;
        for (int i = 0; i < 4; ++i) {
            clients.emplace_back([&] {
                while (true) {
                    const auto call = row_of(1);
                    if (!s.model->submit(call)) return;
                    ++accepted;
                    call->get();
                    ++answered;
                }
            });
        }
        while (answered < 20) std::this_thread::yield();
        s.model->close();
        for (std::thread& each : clients) each.join();
        EXPECT_EQ(accepted, answered);
    }
}

}  // namespace
}  // namespace sluice::serve::served_model_tests
