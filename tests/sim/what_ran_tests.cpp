// SPDX-License-Identifier: Apache-2.0
// The trace of the commands that ran in a schedule.
#include <gmock/gmock.h>

#include <sstream>

#include "sim/saboteurs.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::what_ran_tests {
namespace {

const shape flat{8};

}  // namespace

TEST(executed_trace, lists_commands_times_and_waits) {
    simulator machine;
    machine.begin(3);
    stream a = machine.pool().next(), b = machine.pool().next();
    const tensor<float> x(a, flat), y(b, flat);
    set(a, x, 1);
    set(b, y, 2);
    add(b, x, y);
    machine.run_all();
    const trace ran = machine.executed_trace();
    EXPECT_THAT(ran.devices, testing::ElementsAre("sim:0"));
    ASSERT_EQ(ran.events.size(), 3u);
    EXPECT_EQ(ran.events[0].name, "set_all");
    EXPECT_EQ(ran.events[0].stream, 0u);
    EXPECT_EQ(ran.events[2].name, "add_all");
    EXPECT_EQ(ran.events[2].stream, 1u);
    EXPECT_EQ(ran.events[2].ticket, 2u);
    EXPECT_EQ(ran.events[2].kind, trace_kind::kernel);
    ASSERT_EQ(ran.waits.size(), 1u);
    EXPECT_EQ(ran.waits[0].from_stream, 0u);
    EXPECT_EQ(ran.waits[0].to_stream, 1u);
    EXPECT_EQ(ran.waits[0].to_ticket, 2u);
    for (const trace_event& each : ran.events) EXPECT_LT(each.start_us, each.end_us);
    EXPECT_GE(ran.events[2].start_us, ran.events[0].end_us);
    EXPECT_GE(ran.events[2].start_us, ran.events[1].end_us);
}

TEST(executed_trace, is_part_of_an_exploration_with_a_finding) {
    drops_waits saboteur(1);
    const auto made = explore(
        [](scheduling_policy& pool) {
            stream a = pool.next(), b = pool.next();
            auto x = sync_on(upload(std::vector<float>(flat.size())), a);
            tensor<float> y(b, flat);
            set(a, x, 1);
            set(b, y, 1);
            add(b, x, y);
            return sync_on(named("the end", download(std::move(y))), b);
        },
        {.planted = &saboteur});
    ASSERT_FALSE(made.is_clean());
    std::ostringstream chrome;
    write_chrome_trace(made.executed_trace, chrome);
    for (const char* each : {"upload", "set_all", "add_all", "download", "the end", "sim:0"})
        EXPECT_THAT(chrome.str(), testing::HasSubstr(each));
}

TEST(executed_trace, is_empty_when_nothing_was_found) {
    const auto made = explore([] { return zeros<float>(flat).and_then(download); }, {.schedules = 10});
    EXPECT_TRUE(made.is_clean());
    EXPECT_TRUE(made.executed_trace.events.empty());
}

}  // namespace sluice::sim::what_ran_tests
