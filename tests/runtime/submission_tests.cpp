// SPDX-License-Identifier: Apache-2.0
// What a submission reports to its waiter: whether all its commands are complete, and their failures.
#include "sluice/runtime/detail/submission.hpp"

#include <gmock/gmock.h>

#include "runtime/recording_backend.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::recording::submission_tests {
namespace {

using detail::submission;
using detail::submission_ref;
using testing::ElementsAre;
using testing::IsEmpty;

template <typename Function>
std::string failure_of(Function&& call) {
    try {
        call();
        return "";
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

std::exception_ptr failure(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

class submissions : public testing::Test {
protected:
    // Submits a command that belongs to the submission.
    static void run_for(submission& in, stream on) {
        in.expect(on.queue(), false);
        in.note({&on.queue(), run(on, {}, {})}, {});
    }

    recorded_runtime recorded;
    stream_lease elsewhere{recorded.other};
    stream a = *recorded.a;
    stream b = *recorded.b;
    stream far = *elsewhere;
    submission_ref whole{new submission(recorded.on)};
};

void throw_mine(const native_stream&, const void*) { throw std::runtime_error("mine"); }

}  // namespace

TEST_F(submissions, a_fault_on_any_device_is_reported) {
    run_for(*whole, a);
    run_for(*whole, b);
    run_for(*whole, far);
    recorded.record_of(far).fault = failure("broken");
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
}

TEST_F(submissions, a_known_fault_is_reported_without_waiting_for_another_device) {
    run_for(*whole, a);
    run_for(*whole, far);
    recorded.other.poison(failure("broken"));
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
    EXPECT_THAT(recorded.record_of(a).awaited, IsEmpty());
}

TEST_F(submissions, a_known_fault_of_a_part_is_reported_without_waiting_for_the_rest) {
    run_for(*whole, a);
    const submission_ref part(new submission(recorded.other));
    run_for(*part, far);
    whole->join(part);
    recorded.other.poison(failure("broken"));
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
    EXPECT_THAT(recorded.record_of(a).awaited, IsEmpty());
}

TEST_F(submissions, success_is_reported_only_after_waiting_for_all_commands) {
    for (stream* each : {&a, &b, &far}) run_for(*whole, *each);
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "");
    for (stream* each : {&a, &b, &far}) EXPECT_THAT(recorded.record_of(*each).awaited, ElementsAre(1u));
}

TEST_F(submissions, joining_keeps_only_the_last_point_on_each_queue) {
    submission_ref last = whole;
    run_for(*last, a);
    for (int i = 0; i < 100'000; ++i) {
        const submission_ref next(new submission(recorded.on));
        next->join(last);
        run_for(*next, i % 2 == 0 ? b : far);
        last = next;
    }
    EXPECT_EQ(last->next_open().upto, 1u);
    last->await_completion({});
    EXPECT_THAT(recorded.record_of(a).awaited, ElementsAre(1u));
    EXPECT_THAT(recorded.record_of(b).awaited, ElementsAre(50'000u));
    EXPECT_THAT(recorded.record_of(far).awaited, ElementsAre(50'000u));
}

TEST_F(submissions, repeated_double_joins_do_not_multiply_the_cost) {
    submission_ref last = whole;
    run_for(*last, a);
    for (int depth = 0; depth < 64; ++depth) {  // 2^64 paths lead back to the first
        const submission_ref next(new submission(recorded.on));
        next->join(last);
        next->join(last);
        last = next;
    }
    EXPECT_FALSE(last->is_complete());
    EXPECT_EQ(failure_of([&] { last->rethrow_failure(); }), "");
    EXPECT_THAT(recorded.record_of(a).awaited, ElementsAre(1u));
}

TEST_F(submissions, a_complete_submission_is_not_joined) {
    run_for(*whole, a);
    recorded.record_of(a).wait(1, wait_mode::block);
    const submission_ref other(new submission(recorded.on));
    other->join(whole);
    run_for(*whole, a);
    EXPECT_TRUE(other->is_complete());
}

TEST_F(submissions, a_joined_submission_keeps_its_runtime_alive) {
    const submission_ref other(new submission(recorded.on));
    {
        recorded_runtime another;
        const submission_ref theirs(new submission(another.on));
        run_for(*theirs, *another.a);
        other->join(theirs);
    }
    EXPECT_TRUE(other->is_complete());  // the destroyed runtime has waited for it, and its memory is kept
}

// The part's home is this runtime; what it keeps of another one is taken over too.
TEST_F(submissions, a_joined_submission_keeps_the_runtimes_that_it_reached_alive) {
    const submission_ref other(new submission(recorded.on));
    {
        recorded_runtime another;
        const submission_ref theirs(new submission(another.on));
        run_for(*theirs, *another.a);
        const submission_ref part(new submission(recorded.on));
        part->join(theirs);
        other->join(part);
    }
    EXPECT_TRUE(other->is_complete());
}

TEST_F(submissions, joining_a_sealed_submission_takes_over_its_first_failure) {
    const auto first = detail::outcome::combined({}, true), second = detail::outcome::combined({}, true);
    for (const auto& each : {first, second}) {
        whole->expect(a.queue(), true);
        whole->note({&a.queue(), run(a, {}, {})}, each);
    }
    whole->seal();
    const submission_ref other(new submission(recorded.on));
    other->join(whole);
    second->settle(failure("second"));
    first->settle(failure("first"));
    EXPECT_EQ(failure_of([&] { other->rethrow_failure(); }), "first");
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "first");
}

TEST_F(submissions, a_sealed_submission_reports_a_failure_after_a_success) {
    const auto first = detail::outcome::combined({}, true), second = detail::outcome::combined({}, true),
               third = detail::outcome::combined({}, true);
    for (const auto& each : {first, second, third}) {
        whole->expect(a.queue(), true);
        whole->note({&a.queue(), run(a, {}, {})}, each);
    }
    whole->seal();
    const submission_ref other(new submission(recorded.on));
    other->join(whole);
    first->settle({});
    third->settle(failure("third"));
    second->settle({});
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "third");
    EXPECT_EQ(failure_of([&] { other->rethrow_failure(); }), "third");
}

// In a chain of shared operations, each with a call that may fail, the last one receives the failure of any.
TEST_F(submissions, the_failure_in_a_chain_of_a_hundred_thousand_sealed_ones_is_found_without_walking_it) {
    std::vector<detail::outcome_ref> all;
    submission_ref last = whole;
    for (int i = 0; i < 100'000; ++i) {
        const submission_ref next(new submission(recorded.on));
        next->join(last);
        all.push_back(detail::outcome::combined({}, true));
        next->expect(a.queue(), true);
        next->note({&a.queue(), run(a, {}, {})}, all.back());
        next->seal();
        last = next;
    }
    for (std::size_t i = all.size(); i-- > 1;) all[i]->settle({});
    all.front()->settle(failure("the first"));
    EXPECT_EQ(failure_of([&] { last->rethrow_failure(); }), "the first");
}

TEST_F(submissions, readers_of_memory_that_a_throwing_library_call_should_have_written_receive_its_exception) {
    const storage_ref x = a.allocate(100), y = a.allocate(100);
    const std::array accesses{memory_access{y.get(), access_mode::read}, memory_access{x.get(), access_mode::write}};
    EXPECT_EQ(failure_of([&] { a.library_call({"fail", accesses}, {&throw_mine, nullptr, 0}); }), "mine");
    EXPECT_EQ(a.issued(), 1u);
    execution_context reader(b), other(b);
    read(reader.stream(), x);
    read(other.stream(), y);
    EXPECT_EQ(failure_of([&] { reader.submission()->rethrow_failure(); }), "mine");
    EXPECT_EQ(failure_of([&] { other.submission()->rethrow_failure(); }), "");
}

}  // namespace sluice::recording::submission_tests
