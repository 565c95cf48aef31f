// SPDX-License-Identifier: Apache-2.0
// What a trace says about each command, and about waits between streams.
#include <gmock/gmock.h>

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/parts.hpp"
#include "trace/recorded_test.hpp"

namespace sluice::conformance::recorder_tests {
namespace {

class traces : public recorded_test {};
INSTANTIATE_TEST_SUITE_P(, traces, testing::ValuesIn(enrolled_backends()), backend_name);

auto named_fill(std::string name) { return named(std::move(name), zeros<unsigned>({10})); }

}  // namespace

TEST_P(traces, have_every_command_once_with_its_kind_ticket_bytes_and_name) {
    auto x = submit_to(a, upload(numbers(size, 1)));
    auto y = submit_to(a, zeros<unsigned>({size}));
    step_on(a, x, 1);
    relay_on(a, x, y);
    a.library_call({"library"}, {[](const native_stream&, const void*) {}, nullptr, 0});
    a.host_call({"host"}, {[] {}});
    auto z = submit_to(a, copy(shared_tensor<unsigned>(std::move(y))));
    auto result = submit_to(a, download(std::move(z)));
    const trace made = take();

    ASSERT_EQ(made.events.size(), a.issued());
    const auto events = events_of(made, a);
    ASSERT_EQ(events.size(), a.issued());
    struct expected {
        trace_kind kind;
        std::size_t bytes;
        std::string name;
    };
    const std::vector<expected> all{
        {trace_kind::host_to_device, bytes, "upload"}, {trace_kind::fill, bytes, "zeros"},
        {trace_kind::kernel, 0, "step_kernel"},        {trace_kind::kernel, 0, "relay_kernel"},
        {trace_kind::library_call, 0, "library"},      {trace_kind::host_call, 0, "host"},
        {trace_kind::device_to_device, bytes, "copy"}, {trace_kind::device_to_host, bytes, "download"}};
    ASSERT_EQ(events.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(events[i].kind, all[i].kind) << i;
        EXPECT_EQ(events[i].bytes, all[i].bytes) << i;
        EXPECT_EQ(events[i].name, all[i].name) << i;
        EXPECT_EQ(events[i].ticket, i + 1);
        EXPECT_EQ(events[i].operation, "");
    }
    a.wait(a.issued(), wait_mode::block);
    EXPECT_EQ(detail::open(std::move(result)), numbers(size, 4));
}

TEST_P(traces, name_each_device_that_was_recorded) {
    const trace made = take();
    ASSERT_EQ(made.devices.size(), watched.devices().size());
    for (std::size_t i = 0; i < made.devices.size(); ++i) {
        const sluice::device& each = *watched.devices()[i];
        EXPECT_EQ(made.devices[i], each.name() + " " + each.properties().name);
    }
}

TEST_P(traces, contain_the_file_and_line_that_requested_a_command) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    const trace made = take();
    ASSERT_EQ(made.events.size(), 1u);
    EXPECT_TRUE(made.events[0].location.starts_with("recorder_tests.cpp:")) << made.events[0].location;
}

TEST_P(traces, leave_out_an_unknown_location) {
    a.host_call({"host"}, {[] {}});
    EXPECT_EQ(take().events.at(0).location, "");
}

TEST_P(traces, measure_the_time_of_a_long_command) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    const auto timed = [&] {
        auto before = event::record(a);
        step_on(a, x, 1, 20 * slow());
        auto after = event::record(a);
        return elapsed(before, after).count();
    };
    timed();
    static_cast<void>(take());
    const double around_us = timed();
    const auto events = events_of(take(), a);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_GT(events[0].end_us - events[0].start_us, 0);
    EXPECT_LE(events[0].end_us - events[0].start_us, around_us + 1);  // to the resolution of the clock
}

TEST_P(traces, show_that_a_reader_waited_for_the_writer_on_another_stream) {
    NEEDS_A_GATE();
    auto x = submit_to(a, zeros<unsigned>({size}));
    auto y = submit_to(b, zeros<unsigned>({size}));
    set_on(a, x, 1);  // a kernel's first launch may wait for the device to load it
    relay_on(b, x, y);
    home.synchronize();
    static_cast<void>(take());
    gate held(a);
    set_on(a, x, 7);
    const ticket writer = a.issued();
    a.host_call({"later"}, {[] {}});  // a wait may cover more than was requested
    relay_on(b, x, y);
    const ticket reader = b.issued();
    held.open();
    const trace made = take();
    ASSERT_EQ(made.waits.size(), 1u);
    EXPECT_EQ(made.waits[0].from_stream, a.index());
    EXPECT_EQ(made.waits[0].from_ticket, writer);
    EXPECT_EQ(made.waits[0].to_stream, b.index());
    EXPECT_EQ(made.waits[0].to_ticket, reader);
    const auto writes = events_of(made, a), reads = events_of(made, b);
    ASSERT_EQ(names_of(writes), (std::vector<std::string>{"gate", "set_kernel", "later"}));
    ASSERT_EQ(names_of(reads), std::vector<std::string>{"relay_kernel"});
    EXPECT_EQ(made.waits[0].device, reads[0].device);
    EXPECT_GE(reads[0].start_us, writes[1].end_us - 1);  // it starts after the wait, to the clock's resolution
}

TEST_P(traces, show_that_parts_are_independent_and_the_whole_waits_for_both) {
    NEEDS_A_GATE();
    auto x = submit_to(a, zeros<unsigned>({128}));
    set_on(a, x, 1);  // a kernel's first launch may wait for the device to load it
    auto [low, high] = split<2>(std::move(x));
    home.synchronize();
    static_cast<void>(take());
    gate held(a), held_too(b);
    set_on(a, low, 2);
    set_on(b, high, 3);
    const ticket low_writer = a.issued(), high_writer = b.issued();
    auto whole = join(std::move(low), std::move(high));
    set_on(c, whole, 4);
    held.open();
    held_too.open();
    const trace made = take();
    std::vector<std::pair<std::size_t, ticket>> waited_for;
    for (const trace_wait& each : made.waits) {
        EXPECT_EQ(each.to_stream, c.index());
        waited_for.emplace_back(each.from_stream, each.from_ticket);
    }
    EXPECT_THAT(waited_for, testing::UnorderedElementsAre(testing::Pair(a.index(), low_writer),
                                                          testing::Pair(b.index(), high_writer)));
}

TEST_P(traces, show_an_explicit_wait_at_the_next_command) {
    NEEDS_A_GATE();
    gate held(a);
    b.order_after(a.point(a.issued()));
    b.host_call({"next"}, {[] {}});
    b.host_call({"after"}, {[] {}});
    held.open();
    const trace made = take();
    ASSERT_EQ(made.waits.size(), 1u);
    EXPECT_EQ(made.waits[0].from_ticket, a.issued());
    EXPECT_EQ(made.waits[0].to_ticket, b.issued() - 1);
}

TEST_P(traces, show_a_wait_at_its_command_when_the_trace_was_taken_in_between) {
    NEEDS_A_GATE();
    gate held(a);
    b.order_after(a.point(a.issued()));
    held.open();
    EXPECT_TRUE(take().waits.empty());
    b.host_call({"next"}, {[] {}});
    const trace made = take();
    ASSERT_EQ(made.waits.size(), 1u);
    EXPECT_EQ(made.waits[0].to_ticket, b.issued());
}

TEST_P(traces, have_the_innermost_name_of_an_operation) {
    auto work = named("outer", named_fill("first").and_then([](auto x) {
        return step(std::move(x), 1).and_then([](auto y) { return named("inner", step(std::move(y), 2)); });
    }));
    sluice::sync(std::move(work), streams);
    std::vector<std::string> operations;
    for (const trace_event& each : take().events) operations.push_back(each.operation);
    EXPECT_EQ(operations, (std::vector<std::string>{"first", "outer", "inner"}));
}

TEST_P(traces, have_the_name_under_which_shared_work_is_first_submitted) {
    auto work = share(zeros<unsigned>({10}));
    auto named_itself = share(named_fill("own"));
    sluice::sync(named("outer", zip(work, std::move(named_itself))), streams);
    sluice::sync(named("late", std::move(work).and_then([](auto x) { return copy(std::move(x)); })), streams);
    std::vector<std::string> operations;
    for (const trace_event& each : take().events) operations.push_back(each.operation);
    EXPECT_EQ(operations, (std::vector<std::string>{"outer", "own", "late"}));
}

TEST_P(traces, keep_names_of_operations_that_were_destroyed) {
    for (int i = 0; i < 20; ++i)
        sluice::sync(named_fill("a name too long to be kept in the string itself " + std::to_string(i)), streams);
    auto events = take().events;
    std::ranges::sort(events, {}, &trace_event::start_us);
    ASSERT_EQ(events.size(), 20u);
    EXPECT_EQ(events[19].operation, "a name too long to be kept in the string itself 19");
}

TEST_P(traces, have_a_launch_of_a_graph_as_one_event_with_its_name) {
    const auto fast = compile(
        home, {.name = "two steps"},
        [](tensor<unsigned> x) { return step(std::move(x), 1).and_then([](auto y) { return step(std::move(y), 2); }); },
        device_input<unsigned>({size}));
    auto x = submit_to(a, upload(numbers(size, 1)));
    auto y = submit_to(a, fast(std::move(x)));
    auto z = submit_to(a, named("in force", fast(std::move(y))));
    a.wait(a.issued(), wait_mode::block);
    const auto events = events_of(take(), a);
    ASSERT_EQ(events.size(), 3u);
    for (const std::size_t i : {1, 2}) {
        EXPECT_EQ(events[i].kind, trace_kind::graph);
        EXPECT_EQ(events[i].name, "graph");
    }
    EXPECT_EQ(events[1].operation, "two steps");
    EXPECT_EQ(events[2].operation, "in force");
}

}  // namespace sluice::conformance::recorder_tests
