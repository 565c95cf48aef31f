// SPDX-License-Identifier: Apache-2.0
// When a trace is taken, which commands it has; and that recording changes no result.
#include <array>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

#include "sluice/kernels/elementwise.hpp"
#include "trace/recorded_test.hpp"

namespace sluice::conformance::taking_tests {
namespace {

class taken_traces : public recorded_test {};
INSTANTIATE_TEST_SUITE_P(, taken_traces, testing::ValuesIn(enrolled_backends()), backend_name);

auto host_call(std::function<void()> call) {
    return with_context([call](execution_context& context) { context.stream().host_call({"host call"}, {call}); });
}

}  // namespace

TEST_P(taken_traces, begin_again_after_one_was_taken) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    EXPECT_EQ(take().events.size(), 1u);
    EXPECT_EQ(take().events.size(), 0u);
    step_on(a, x, 1);
    const trace second = take();
    ASSERT_EQ(second.events.size(), 1u);
    EXPECT_EQ(second.events[0].ticket, 2u);
    EXPECT_EQ(second.events[0].start_us, 0);
}

TEST_P(taken_traces, are_taken_after_all_submitted_commands) {
    NEEDS_A_GATE();
    gate held(a);
    a.host_call({"after"}, {[] {}});
    std::jthread opens([&] { held.open(); });
    const auto events = events_of(take(), a);
    EXPECT_EQ(names_of(events), (std::vector<std::string>{"gate", "after"}));
}

TEST_P(taken_traces, of_long_runs_are_complete) {
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

TEST_P(taken_traces, of_several_threads_and_streams_miss_nothing) {
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

TEST_P(taken_traces, distinguish_several_devices) {
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

TEST_P(taken_traces, have_no_commands_that_were_refused) {
    auto x = submit_to(a, zeros<unsigned>({size}));
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    single_stream theirs(watched.find(GetParam().other_device));
    EXPECT_THROW(theirs.next().fill({"refused", accesses}, {x.device_data(), 0, bytes}), error);
    EXPECT_EQ(take().events.size(), 1u);
}

TEST_P(taken_traces, continue_after_failures) {
    EXPECT_THROW(sluice::sync(host_call([] { throw std::runtime_error("broken"); }), streams), std::runtime_error);
    const auto broken = [](execution_context& context) {
        context.stream().library_call(
            {"broken"}, {[](const native_stream&, const void*) { throw std::runtime_error("broken"); }, nullptr, 0});
    };
    EXPECT_THROW(sluice::sync(with_context(broken), streams), std::runtime_error);
    EXPECT_EQ(sluice::sync(full<unsigned>({5}, 1).and_then(download), streams), numbers(5, 1));
    EXPECT_EQ(take().events.size(), 4u);  // including the failed commands
}

TEST_P(taken_traces, contain_operations_that_were_dropped_in_flight) {
    for (int i = 0; i < 20; ++i) static_cast<void>(spawn(full<unsigned>({size}, 1).and_then(download), streams));
    EXPECT_EQ(take().events.size(), 40u);
}

TEST_P(taken_traces, outlive_the_runtime) {
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

TEST_P(taken_traces, end_when_the_recorder_is_destroyed_before_the_runtime) {
    std::optional<trace_recorder> mine(std::in_place);
    runtime outlives(recorded_by(*mine));
    round_robin pool(outlives.find(GetParam().device), 2);
    EXPECT_EQ(sync(full<unsigned>({5}, 1).and_then(download), pool), numbers(5, 1));
    mine.reset();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(sync(full<unsigned>({5}, 2).and_then(download), pool), numbers(5, 2));
}

TEST_P(taken_traces, have_no_more_than_the_limit_and_count_the_rest) {
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

TEST_P(taken_traces, of_a_poisoned_device_can_be_taken) {
    sync(zeros<unsigned>({size}), streams);
    home.poison(std::make_exception_ptr(std::runtime_error("faulted")));
    EXPECT_THROW(sync(zeros<unsigned>({size}), streams), std::runtime_error);
    EXPECT_EQ(take().events.size(), 1u);
}

TEST_P(taken_traces, change_no_result) {
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

}  // namespace sluice::conformance::taking_tests
