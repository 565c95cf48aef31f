// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/access_history.hpp"

#include <gmock/gmock.h>

#include "runtime/recording_backend.hpp"

namespace sluice::detail::access_history_tests {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class access_history_test : public testing::Test {
protected:
    using points = std::vector<std::pair<command_queue*, ticket>>;

    points conflicts(stream by, access_mode mode) const {
        points all;
        history.for_each_conflict(by.queue(), mode,
                                  [&](stream_point each) { all.emplace_back(each.queue, each.upto); });
        return all;
    }
    points last_uses() const {
        points all;
        history.for_each_last_use([&](stream_point each) { all.emplace_back(each.queue, each.upto); });
        return all;
    }
    void read(stream by, ticket number) { history.add(by.point(number), access_mode::read); }
    void write(stream by, ticket number) { history.add(by.point(number), access_mode::write); }

    recording::recorded_runtime recorded;
    stream a = *recorded.a;
    stream b = *recorded.b;
    stream c = *recorded.c;
    access_history history;
};

}  // namespace

TEST_F(access_history_test, fresh_storage_conflicts_with_nothing) {
    EXPECT_THAT(conflicts(a, access_mode::read), IsEmpty());
    EXPECT_THAT(conflicts(a, access_mode::write), IsEmpty());
    EXPECT_THAT(last_uses(), IsEmpty());
    EXPECT_EQ(history.last_write().queue, nullptr);
}

TEST_F(access_history_test, a_read_comes_after_the_last_write_of_another_stream) {
    write(a, 3);
    EXPECT_THAT(conflicts(b, access_mode::read), ElementsAre(std::pair(&a.queue(), ticket{3})));
    EXPECT_THAT(conflicts(a, access_mode::read), IsEmpty());
}

TEST_F(access_history_test, reads_do_not_conflict_with_reads) {
    read(a, 1);
    EXPECT_THAT(conflicts(b, access_mode::read), IsEmpty());
}

TEST_F(access_history_test, a_write_comes_after_the_last_write_and_the_readers_since) {
    write(a, 3);
    read(b, 5);
    read(c, 7);
    EXPECT_THAT(conflicts(a, access_mode::write),
                UnorderedElementsAre(std::pair(&b.queue(), ticket{5}), std::pair(&c.queue(), ticket{7})));
    EXPECT_THAT(conflicts(b, access_mode::write),
                UnorderedElementsAre(std::pair(&a.queue(), ticket{3}), std::pair(&c.queue(), ticket{7})));
    EXPECT_THAT(last_uses(), UnorderedElementsAre(std::pair(&a.queue(), ticket{3}), std::pair(&b.queue(), ticket{5}),
                                                  std::pair(&c.queue(), ticket{7})));
}

TEST_F(access_history_test, a_write_replaces_the_readers_before_it) {
    read(a, 1);
    read(b, 2);
    write(c, 1);
    EXPECT_THAT(last_uses(), ElementsAre(std::pair(&c.queue(), ticket{1})));
}

TEST_F(access_history_test, each_stream_has_one_reader_entry_with_its_latest_ticket) {
    for (ticket number = 1; number <= 20; ++number) read(a, number);
    EXPECT_THAT(last_uses(), ElementsAre(std::pair(&a.queue(), ticket{20})));
}

TEST_F(access_history_test, any_number_of_streams_may_read) {
    std::vector<stream_lease> many;
    points expected;
    for (ticket number = 1; number <= 20; ++number) {
        many.emplace_back(recorded.on);
        read(*many.back(), number);
        read(*many.back(), number + 100);
        expected.emplace_back(&many.back()->queue(), number + 100);
    }
    EXPECT_THAT(conflicts(a, access_mode::write), testing::UnorderedElementsAreArray(expected));
    write(a, 1);
    EXPECT_THAT(last_uses(), ElementsAre(std::pair(&a.queue(), ticket{1})));
    read(b, 9);
    EXPECT_THAT(conflicts(c, access_mode::write),
                UnorderedElementsAre(std::pair(&a.queue(), ticket{1}), std::pair(&b.queue(), ticket{9})));
}

TEST_F(access_history_test, adopted_writes_come_before_reads_and_writes) {
    write(a, 1);
    access_history part = history, other = history;
    part.add(b.point(4), access_mode::write);
    other.add(c.point(2), access_mode::write);
    other.add(a.point(3), access_mode::read);
    const auto never = [](const stream_point&) { return false; };
    history.adopt(part, never);
    history.adopt(other, never);
    EXPECT_THAT(conflicts(a, access_mode::read),
                UnorderedElementsAre(std::pair(&b.queue(), ticket{4}), std::pair(&c.queue(), ticket{2})));
    EXPECT_THAT(conflicts(b, access_mode::write),
                UnorderedElementsAre(std::pair(&a.queue(), ticket{1}), std::pair(&c.queue(), ticket{2}),
                                     std::pair(&a.queue(), ticket{3})));
    EXPECT_THAT(last_uses(), UnorderedElementsAre(std::pair(&a.queue(), ticket{1}), std::pair(&b.queue(), ticket{4}),
                                                  std::pair(&c.queue(), ticket{2}), std::pair(&a.queue(), ticket{3})));
}

TEST_F(access_history_test, a_write_replaces_adopted_accesses_unless_it_is_revoked) {
    access_history part;
    part.add(b.point(4), access_mode::write);
    part.add(c.point(1), access_mode::read);
    history.adopt(part, [](const stream_point&) { return false; });
    write(a, 7);
    EXPECT_THAT(last_uses(), ElementsAre(std::pair(&a.queue(), ticket{7})));
    history.revoke(a.point(7));
    EXPECT_THAT(last_uses(), UnorderedElementsAre(std::pair(&b.queue(), ticket{4}), std::pair(&c.queue(), ticket{1})));
    write(a, 8);
    read(b, 5);
    EXPECT_THAT(last_uses(), UnorderedElementsAre(std::pair(&a.queue(), ticket{8}), std::pair(&b.queue(), ticket{5})));
}

TEST_F(access_history_test, what_is_adopted_again_and_again_does_not_grow) {
    for (ticket number = 1; number < 100; ++number) {
        access_history part = history;
        part.add(b.point(number), access_mode::write);
        part.add(c.point(number), access_mode::read);
        history.adopt(part, [](const stream_point&) { return false; });
        EXPECT_EQ(last_uses().size(), 2u);
    }
    access_history over = history;
    over.add(a.point(1), access_mode::read);
    history.adopt(over, [&](const stream_point& use) { return use.queue == &a.queue(); });
    EXPECT_EQ(last_uses().size(), 2u);
}

}  // namespace sluice::detail::access_history_tests
