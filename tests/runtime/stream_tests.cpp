// SPDX-License-Identifier: Apache-2.0
// The waits that a stream inserts: exactly those that a conflict with another stream requires.
#include "sluice/runtime/stream.hpp"

#include <gmock/gmock.h>

#include "runtime/recording_backend.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/event.hpp"

namespace sluice::recording::stream_tests {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class stream_waits : public testing::Test {
protected:
    std::vector<recorded_wait>& waits(stream of) { return recorded.record_of(of).waits; }

    recorded_runtime recorded;
    stream a = *recorded.a;
    stream b = *recorded.b;
    stream c = *recorded.c;
    storage_ref x = a.allocate(100);
    storage_ref y = a.allocate(100);
};

using refusals = stream_waits;

}  // namespace

TEST_F(stream_waits, commands_are_numbered_from_one) {
    EXPECT_EQ(a.issued(), 0u);
    EXPECT_EQ(write(a, x), 1u);
    EXPECT_EQ(read(a, x), 2u);
    EXPECT_EQ(a.issued(), 2u);
    EXPECT_EQ(b.issued(), 0u);
}

TEST_F(stream_waits, a_stream_never_waits_for_itself) {
    write(a, x);
    read(a, x);
    write(a, x);
    write(a, x);
    EXPECT_THAT(waits(a), IsEmpty());
}

TEST_F(stream_waits, a_read_waits_once_for_the_write_before_it) {
    write(a, y);
    write(a, x);
    read(b, x);
    read(b, x);
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 2}));
    EXPECT_THAT(waits(a), IsEmpty());
}

TEST_F(stream_waits, a_write_waits_once_for_each_stream_that_read) {
    read(a, x);
    read(a, x);
    read(b, x);
    read(c, x);
    write(c, x);
    EXPECT_THAT(waits(c), UnorderedElementsAre(recorded_wait{a.index(), 2}, recorded_wait{b.index(), 1}));
}

TEST_F(stream_waits, a_write_waits_once_for_the_write_before_it) {
    write(a, x);
    write(b, x);
    write(b, x);
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(stream_waits, readers_do_not_wait_for_each_other) {
    read(a, x);
    read(b, x);
    read(c, x);
    EXPECT_THAT(waits(b), IsEmpty());
    EXPECT_THAT(waits(c), IsEmpty());
}

TEST_F(stream_waits, a_chain_waits_for_its_last_link_only) {
    write(a, x);
    write(b, x);
    write(c, x);
    write(a, x);
    EXPECT_THAT(waits(c), ElementsAre(recorded_wait{b.index(), 1}));
    EXPECT_THAT(waits(a), ElementsAre(recorded_wait{c.index(), 1}));
}

TEST_F(stream_waits, a_stream_does_not_wait_twice_for_a_ticket) {
    write(a, x);
    write(a, y);
    read(b, y);  // after ticket 2, so after ticket 1
    read(b, x);
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 2}));
    write(a, x);
    read(b, x);
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 2}, recorded_wait{a.index(), 3}));
}

TEST_F(stream_waits, a_stream_does_not_wait_for_a_ticket_that_has_passed) {
    write(a, x);
    a.wait(1, wait_mode::block);
    write(b, x);
    EXPECT_THAT(waits(b), IsEmpty());
}

TEST_F(stream_waits, a_wait_that_covers_more_makes_the_next_one_unnecessary) {
    recorded.record_of(b).waits_cover_everything = true;
    write(a, x);
    write(a, y);
    read(b, x);
    read(b, y);
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(stream_waits, reading_and_writing_the_same_storage_waits_once) {
    write(a, x);
    run(b, {x.get(), x.get()}, {x.get()});
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 1}));
    read(c, x);
    EXPECT_THAT(waits(c), ElementsAre(recorded_wait{b.index(), 1}));
}

TEST_F(stream_waits, one_command_waits_for_all_its_storage) {
    write(a, x);
    write(b, y);
    run(c, {x.get()}, {y.get()});
    EXPECT_THAT(waits(c), ElementsAre(recorded_wait{a.index(), 1}, recorded_wait{b.index(), 1}));
}

TEST_F(stream_waits, memory_reused_by_another_stream_needs_no_wait_when_it_is_free) {
    write(a, x);
    const storage* const block = x.get();
    a.wait(1, wait_mode::block);
    x = {};
    const storage_ref reused = b.allocate(100);
    ASSERT_EQ(reused.get(), block);
    write(b, reused);
    EXPECT_THAT(waits(b), IsEmpty());
}

TEST_F(stream_waits, an_explicit_wait_is_for_another_stream_only) {
    write(a, x);
    a.order_after(a.point(1));
    b.order_after(a.point(1));
    b.order_after({});
    EXPECT_THAT(waits(a), IsEmpty());
    EXPECT_THAT(waits(b), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(stream_waits, an_explicit_wait_for_another_device_blocks_the_stream_and_not_the_host) {
    const stream_lease theirs(recorded.other);
    write(a, x);
    theirs->order_after(a.point(1));
    EXPECT_THAT(recorded.record_of(a).awaited, IsEmpty());
    EXPECT_THAT(waits(*theirs), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(refusals, a_command_that_could_not_be_enqueued_uses_no_ticket) {
    write(a, x);
    recorded.record_of(a).refuses_the_next = true;
    EXPECT_THROW(write(a, x), std::runtime_error);
    EXPECT_EQ(a.issued(), 1u);
    EXPECT_EQ(read(a, x), 2u);
}

TEST_F(refusals, no_stream_waits_for_a_command_that_could_not_be_enqueued) {
    recorded.record_of(a).refuses_the_next = true;
    EXPECT_THROW(write(a, x), std::runtime_error);
    write(b, x);
    EXPECT_THAT(waits(b), IsEmpty());
}

// The next three: a command enters the history before it is enqueued. When it is then refused, the accesses before it
// must count again.
TEST_F(refusals, a_write_that_could_not_be_enqueued_leaves_the_write_before_it_in_force) {
    write(a, x);
    recorded.record_of(b).refuses_the_next = true;
    EXPECT_THROW(write(b, x), std::runtime_error);
    read(c, x);
    EXPECT_THAT(waits(c), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(refusals, a_write_that_could_not_be_enqueued_leaves_the_readers_before_it_in_force) {
    read(a, x);
    recorded.record_of(b).refuses_the_next = true;
    EXPECT_THROW(write(b, x), std::runtime_error);
    write(c, x);
    EXPECT_THAT(waits(c), ElementsAre(recorded_wait{a.index(), 1}));
}

TEST_F(refusals, memory_is_not_reused_before_its_last_use_after_a_write_that_could_not_be_enqueued) {
    write(a, x);
    recorded.record_of(b).refuses_the_next = true;
    EXPECT_THROW(write(b, x), std::runtime_error);
    const storage* const busy = x.get();
    x = {};
    EXPECT_NE(c.allocate(100).get(), busy);
}

TEST_F(refusals, storage_of_another_device_is_refused_with_both_names) {
    const stream_lease theirs(recorded.other);
    try {
        read(*theirs, x);
        FAIL() << "nothing was thrown";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::invalid_argument);
        EXPECT_EQ(refusal.operation(), "test");
        EXPECT_EQ(refusal.device(), "fake:1");
        EXPECT_THAT(refusal.what(), testing::HasSubstr("fake:0"));
    }
    EXPECT_EQ(theirs->issued(), 0u);
    write(a, x);
    EXPECT_THAT(waits(a), IsEmpty());
}

TEST_F(refusals, a_poisoned_device_refuses_everything_with_its_first_cause_and_other_devices_continue) {
    const stream_lease theirs(recorded.other);
    const storage_ref z = theirs->allocate(100);
    const auto cause_of = [](auto&& call) -> std::string {
        try {
            call();
            return "nothing";
        } catch (const std::exception& cause) {
            return cause.what();
        }
    };
    recorded.on.poison(std::make_exception_ptr(std::runtime_error("first")));
    recorded.on.poison(std::make_exception_ptr(std::runtime_error("second")));
    EXPECT_TRUE(recorded.on.is_poisoned());
    EXPECT_EQ(cause_of([&] { write(a, x); }), "first");
    EXPECT_EQ(cause_of([&] { write(b, y); }), "first");
    EXPECT_EQ(cause_of([&] { a.allocate(1); }), "first");
    EXPECT_EQ(cause_of([&] { a.allocate_host(1); }), "first");
    EXPECT_EQ(cause_of([&] { event::record(a); }), "first");
    EXPECT_EQ(cause_of([&] { recorded.on.synchronize(); }), "first");
    EXPECT_EQ(cause_of([&] { stream_lease more(recorded.on); }), "first");
    EXPECT_EQ(cause_of([&] { write(*theirs, z); }), "nothing");
    EXPECT_FALSE(recorded.other.is_poisoned());
    EXPECT_THAT(recorded.record_of(a).commands, IsEmpty());
}

TEST_F(stream_waits, a_returned_stream_is_leased_again_before_a_new_one_is_created) {
    const command_queue* first = nullptr;
    {
        const stream_lease lent(recorded.on);
        first = &lent->queue();
    }
    const stream_lease again(recorded.on), another(recorded.on);
    EXPECT_EQ(&again->queue(), first);
    EXPECT_NE(&another->queue(), first);
    const stream_lease urgent(recorded.on, {.priority = -1});
    EXPECT_NE(&urgent->queue(), first);
}

}  // namespace sluice::recording::stream_tests
