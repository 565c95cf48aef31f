// What a submission leaves behind for its waiter: whether all of it is over, and what went wrong.
#include "sluice/runtime/submission.hpp"

#include <gmock/gmock.h>

#include "runtime/recording_backend.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::recording {
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
    // A command that belongs to it.
    static void run_for(submission& in, stream& on) {
        in.expect(on.queue(), false);
        in.note({&on.queue(), run(on, {}, {})}, {});
    }

    recorded_runtime recorded;
    stream_lease elsewhere{recorded.other};
    stream& a = *recorded.a;
    stream& b = *recorded.b;
    stream& far = *elsewhere;
    submission_ref whole{new submission(recorded.on)};
};

void throw_mine(const native_stream&, const void*) { throw std::runtime_error("mine"); }

}  // namespace

TEST_F(submissions, a_fault_is_told_wherever_it_is) {
    run_for(*whole, a);
    run_for(*whole, b);
    run_for(*whole, far);
    recorded.record_of(far).fault = failure("broken");
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
}

TEST_F(submissions, a_known_fault_is_told_without_waiting_for_another_device) {
    run_for(*whole, a);
    run_for(*whole, far);
    recorded.other.poison(failure("broken"));
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
    EXPECT_THAT(recorded.record_of(a).awaited, IsEmpty());
}

TEST_F(submissions, a_known_fault_of_a_part_is_told_without_waiting_for_the_rest) {
    run_for(*whole, a);
    const submission_ref part(new submission(recorded.other));
    run_for(*part, far);
    whole->join(part);
    recorded.other.poison(failure("broken"));
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "broken");
    EXPECT_THAT(recorded.record_of(a).awaited, IsEmpty());
}

TEST_F(submissions, nothing_is_told_before_all_of_it_is_over) {
    for (stream* each : {&a, &b, &far}) run_for(*whole, *each);
    EXPECT_EQ(failure_of([&] { whole->rethrow_failure(); }), "");
    for (stream* each : {&a, &b, &far}) EXPECT_THAT(recorded.record_of(*each).awaited, ElementsAre(1u));
}

TEST_F(submissions, what_a_library_call_that_threw_should_have_written_is_missed_by_its_readers) {
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

}  // namespace sluice::recording
