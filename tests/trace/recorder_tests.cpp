// SPDX-License-Identifier: Apache-2.0
// What a recorder records of a device's commands, and that recording changes no result.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance {
namespace {

using numbers = std::vector<unsigned>;

class traces : public conformance_test {
protected:
    static runtime_options recorded_by(trace_recorder& recorder) {
        runtime_options all = GetParam().options;
        all.trace = &recorder;
        return all;
    }

    // The events of a stream, by ticket.
    static std::vector<trace_event> events_of(const trace& from, stream of) {
        std::vector<trace_event> found;
        for (const trace_event& each : from.events) {
            if (each.stream == of.index() && device_of(from, each).starts_with(of.owner().name() + " ")) {
                found.push_back(each);
            }
        }
        std::ranges::sort(found, {}, &trace_event::ticket);
        return found;
    }
    static std::string device_of(const trace& from, const trace_event& event) {
        return event.device < from.devices.size() ? from.devices[event.device] : "no such device";
    }
    static std::vector<std::string> names_of(const std::vector<trace_event>& events) {
        std::vector<std::string> names;
        for (const trace_event& each : events) names.push_back(each.name);
        return names;
    }

    // Checks properties that every trace has.
    static void expect_sound(const trace& made) {
        double first_us = made.events.empty() ? 0 : 1e9;
        for (const trace_event& each : made.events) {
            EXPECT_LT(each.device, made.devices.size());
            EXPECT_GE(each.ticket, 1u);
            EXPECT_FALSE(each.name.empty());
            EXPECT_GE(each.start_us, 0);
            EXPECT_LE(each.start_us, each.end_us) << each.name;
            first_us = std::min(first_us, each.start_us);
        }
        EXPECT_EQ(first_us, 0);  // times count from the first command
        auto sorted = made.events;
        std::ranges::sort(sorted, {}, [](const trace_event& e) { return std::tuple(e.device, e.stream, e.ticket); });
        for (std::size_t i = 1; i < sorted.size(); ++i) {
            const trace_event &before = sorted[i - 1], &after = sorted[i];
            if (before.device != after.device || before.stream != after.stream) continue;
            EXPECT_LT(before.ticket, after.ticket);
            EXPECT_LE(before.end_us, after.start_us) << before.name << ", " << after.name;
        }
    }
    trace take() {
        trace made = watch.take();
        expect_sound(made);
        EXPECT_EQ(watch.dropped(), 0u);
        return made;
    }

    static constexpr std::size_t size = 1000, bytes = size * sizeof(unsigned);
    trace_recorder watch;
    runtime watched{recorded_by(watch)};
    sluice::device& home = watched.find(GetParam().device);
    round_robin streams{home, 3};
    stream a = streams.next();
    stream b = streams.next();
    stream c = streams.next();
};
INSTANTIATE_TEST_SUITE_P(, traces, testing::ValuesIn(enrolled_backends()), backend_name);

auto named_fill(std::string name) { return named(std::move(name), zeros<unsigned>({10})); }

auto host_call(std::function<void()> call) {
    return with_context([call](execution_context& context) { context.stream().host_call({"host call"}, {call}); });
}

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

TEST_P(traces, begin_again_after_one_was_taken) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    EXPECT_EQ(take().events.size(), 1u);
    EXPECT_EQ(take().events.size(), 0u);
    step_on(a, x, 1);
    const trace second = take();
    ASSERT_EQ(second.events.size(), 1u);
    EXPECT_EQ(second.events[0].ticket, 2u);
    EXPECT_EQ(second.events[0].start_us, 0);
}

TEST_P(traces, are_taken_after_all_submitted_commands) {
    NEEDS_A_GATE();
    gate held(a);
    a.host_call({"after"}, {[] {}});
    std::jthread opens([&] { held.open(); });
    const auto events = events_of(take(), a);
    EXPECT_EQ(names_of(events), (std::vector<std::string>{"gate", "after"}));
}

TEST_P(traces, of_long_runs_are_complete) {
    constexpr unsigned rounds = 3000;
    auto x = submit_to(a, full<unsigned>({size}, 1));
    const ticket before = a.issued();
    for (unsigned i = 0; i < rounds; ++i) step_on(a, x, i);
    EXPECT_EQ(contents(std::move(x), a), numbers(size, after_steps(1, rounds)));
    const auto events = events_of(take(), a);
    ASSERT_EQ(events.size(), a.issued());
    for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].ticket, i + 1);
    EXPECT_EQ(events.at(before).name, "step_kernel");
}

TEST_P(traces, of_several_threads_and_streams_miss_nothing) {
    constexpr int threads = 4, rounds = 200;
    std::atomic<bool> done = false;
    std::size_t seen = 0;
    std::jthread taker([&] {
        while (!done) seen += take().events.size();
    });
    {
        std::vector<std::jthread> all;
        for (int t = 0; t < threads; ++t) {
            all.emplace_back([&] {
                for (int i = 0; i < rounds; ++i) sluice::sync(full<unsigned>({8}, 3u).and_then(download), streams);
            });
        }
    }
    done = true;
    taker.join();
    seen += take().events.size();
    EXPECT_EQ(seen, a.issued() + b.issued() + c.issued());
    EXPECT_EQ(seen, threads * rounds * 2u);
}

TEST_P(traces, distinguish_several_devices) {
    sluice::device& other = watched.find(GetParam().other_device);
    single_stream theirs(other);
    auto x = submit_to(a, full<unsigned>({size}, 1));
    auto y = submit_to(theirs.next(), zeros<unsigned>({size}));
    home.synchronize();
    other.synchronize();
    const trace made = take();
    EXPECT_EQ(events_of(made, a).size(), 1u);
    const auto events = events_of(made, theirs.next());
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, trace_kind::fill);
}

TEST_P(traces, have_no_commands_that_were_refused) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    single_stream theirs(watched.find(GetParam().other_device));
    EXPECT_THROW(theirs.next().fill({"refused", accesses}, {x.device_data(), 0, bytes}), error);
    EXPECT_EQ(take().events.size(), 1u);
}

TEST_P(traces, continue_after_failures) {
    EXPECT_THROW(sluice::sync(host_call([] { throw std::runtime_error("broken"); }), streams), std::runtime_error);
    const auto broken = [](execution_context& context) {
        context.stream().library_call(
            {"broken"}, {[](const native_stream&, const void*) { throw std::runtime_error("broken"); }, nullptr, 0});
    };
    EXPECT_THROW(sluice::sync(with_context(broken), streams), std::runtime_error);
    EXPECT_EQ(sluice::sync(full<unsigned>({5}, 1).and_then(download), streams), numbers(5, 1));
    EXPECT_EQ(take().events.size(), 4u);  // including the failed commands
}

TEST_P(traces, contain_operations_that_were_dropped_in_flight) {
    for (int i = 0; i < 20; ++i) static_cast<void>(spawn(full<unsigned>({size}, 1).and_then(download), streams));
    EXPECT_EQ(take().events.size(), 40u);
}

TEST_P(traces, outlive_the_runtime) {
    trace_recorder mine;
    {
        runtime short_lived(recorded_by(mine));
        single_stream pool(short_lived.find(GetParam().device));
        for (int i = 0; i < 5; ++i) sync(zeros<unsigned>({size}), pool);
    }
    const trace made = mine.take();
    expect_sound(made);
    EXPECT_EQ(made.events.size(), 5u);
    EXPECT_TRUE(mine.take().events.empty());
}

TEST_P(traces, end_when_the_recorder_is_destroyed_before_the_runtime) {
    std::optional<trace_recorder> mine(std::in_place);
    runtime outlives(recorded_by(*mine));
    round_robin pool(outlives.find(GetParam().device), 2);
    EXPECT_EQ(sync(full<unsigned>({5}, 1).and_then(download), pool), numbers(5, 1));
    mine.reset();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(sync(full<unsigned>({5}, 2).and_then(download), pool), numbers(5, 2));
}

TEST_P(traces, have_no_more_than_the_limit_and_count_the_rest) {
    trace_recorder mine({.most_events = 10});
    runtime limited(recorded_by(mine));
    single_stream pool(limited.find(GetParam().device));
    for (int i = 0; i < 25; ++i) sync(zeros<unsigned>({size}), pool);
    EXPECT_EQ(mine.dropped(), 15u);
    EXPECT_EQ(mine.take().events.size(), 10u);
    sync(zeros<unsigned>({size}), pool);  // there is room again
    const trace second = mine.take();
    ASSERT_EQ(second.events.size(), 1u);
    EXPECT_EQ(second.events[0].ticket, 26u);
    EXPECT_EQ(mine.dropped(), 15u);
}

TEST_P(traces, of_a_poisoned_device_can_be_taken) {
    sync(zeros<unsigned>({size}), streams);
    home.poison(std::make_exception_ptr(std::runtime_error("faulted")));
    EXPECT_THROW(sync(zeros<unsigned>({size}), streams), std::runtime_error);
    EXPECT_EQ(take().events.size(), 1u);
}

TEST_P(traces, change_no_result) {
    const auto work = [this](scheduling_policy& pool) {
        auto x = submit_to(pool.next(), full<unsigned>({size}, 1));
        for (unsigned i = 0; i < 200; ++i) step_on(pool.next(), x, i, i % 16 == 0 ? slow() : 0);
        return contents(std::move(x), pool.next());
    };
    round_robin untraced(on, 3);
    EXPECT_EQ(work(streams), work(untraced));
    const trace made = take();
    EXPECT_EQ(made.events.size(), 202u);
    EXPECT_GE(made.waits.size(), 1u);
}

}  // namespace sluice::conformance
