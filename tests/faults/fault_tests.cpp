// SPDX-License-Identifier: Apache-2.0
// A device that has faulted refuses further work, releases what it owned, and does not affect other devices.
#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "conformance/support/awaiting.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::faults::fault_tests {
namespace {

using conformance::failing_number;
using conformance::failure_of;
using conformance::submit_to;
using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class faults : public testing::Test {
protected:
    static auto work(unsigned start) { return full<unsigned>({size}, start).and_then(download); }
    // Breaks the device; commands submitted before never run.
    void break_down(std::string why = "broken") { fakes.first.works.fault(std::move(why)); }
    // The host finds out with the next command.
    void notice() {
        EXPECT_NE(failure_of([&] { a.host_call({"next"}, {[] {}}); }), "");
    }

    faulty_runtime fakes;
    round_robin pool{fakes.on, 4};
    round_robin other{fakes.other, 2};
    stream a = pool.next();
    stream b = pool.next();
};

// The message of the device_error that a call throws.
template <typename Function>
std::string fault_of(Function&& call) {
    try {
        call();
        return "";
    } catch (const device_error& fault) {
        EXPECT_EQ(fault.device(), "fake:0");
        return fault.what();
    }
}
constexpr const char* told = "a command on fake:0: broken";

}  // namespace

TEST_F(faults, a_sound_device_works) {
    EXPECT_EQ(sync(work(3), pool), numbers(size, 3));
    EXPECT_EQ(spawn(zip(work(3), work(4)), pool).get(), (std::tuple{numbers(size, 3), numbers(size, 4)}));
    EXPECT_EQ(sync(upload(numbers{1, 2, 3}).and_then(download), pool), (numbers{1, 2, 3}));
}

TEST_F(faults, the_next_command_is_refused_and_so_is_everything_after_it) {
    fakes.first.works.hold();
    auto x = submit_to(a, zeros<unsigned>({size}));
    break_down();
    EXPECT_EQ(fault_of([&] { submit_to(a, download(std::move(x))); }), told);
    EXPECT_EQ(fault_of([&] { spawn(work(1), pool); }), told);
    EXPECT_EQ(fault_of([&] { sync(work(1), pool); }), told);
    EXPECT_EQ(fault_of([&] { a.host_call({"late"}, {[] {}}); }), told);
    EXPECT_EQ(fault_of([&] { b.order_after(a.point(1)); }), told);
    EXPECT_EQ(fault_of([&] { fakes.on.synchronize(); }), told);
    EXPECT_TRUE(fakes.on.is_poisoned());
}

TEST_F(faults, a_call_that_waits_for_its_command_throws_the_fault_with_its_line) {
    fakes.on.block_each_command();  // as runtime_options::blocks_each_command does
    a.host_call({"sound"}, {[] {}});
    conformance::expect_refused_here(errc::device_failed, {"fake:0", "broken"}, [&] {
        a.host_call({"breaks", {}, source_location::current()}, {[this] { break_down(); }});
    });
    bool later = false;
    EXPECT_NE(fault_of([&] { a.host_call({"later"}, {[&later] { later = true; }}); }), "");
    EXPECT_FALSE(later);
}

TEST_F(faults, a_call_that_does_not_wait_for_its_command_leaves_the_fault_to_the_waiter) {
    fakes.first.works.hold();
    EXPECT_EQ(fault_of([&] { a.host_call({"breaks"}, {[this] { break_down(); }}); }), "");
    fakes.first.works.release();
    EXPECT_EQ(fault_of([&] { a.wait(a.issued(), wait_mode::block); }), told);
}

TEST_F(faults, memory_and_streams_are_refused) {
    break_down();
    notice();
    EXPECT_EQ(fault_of([&] { a.allocate(100); }), told);
    EXPECT_EQ(fault_of([&] { a.allocate_host(100); }), told);
    EXPECT_EQ(fault_of([&] { a.workspace(100); }), told);
    EXPECT_EQ(fault_of([&] { stream_lease more(fakes.on); }), told);
    EXPECT_EQ(fault_of([&] { host_buffer<int>(a, 4); }), told);
}

TEST_F(faults, an_allocation_that_meets_the_fault_first_reports_its_cause_to_every_waiter) {
    fakes.first.works.hold();
    auto waiting = spawn(work(1), pool);
    break_down();
    // Sizes that no pool has cached: the driver is called, and is the first to fail.
    EXPECT_EQ(fault_of([&] { sync(zeros<unsigned>({1'000'000}), pool); }), told);
    EXPECT_TRUE(fakes.on.is_poisoned());
    EXPECT_EQ(fault_of([&] { std::move(waiting).get(); }), told);
    EXPECT_EQ(fault_of([&] { sync(upload(numbers(100'000)), pool); }), told);
}

TEST_F(faults, a_host_allocation_that_meets_the_fault_first_reports_its_cause_to_every_waiter) {
    fakes.first.works.hold();
    auto waiting = spawn(work(1), pool);
    break_down();
    EXPECT_EQ(fault_of([&] { host_buffer<unsigned>(a, 1'000'000); }), told);
    EXPECT_TRUE(fakes.on.is_poisoned());
    EXPECT_EQ(fault_of([&] { std::move(waiting).get(); }), told);
}

// Other code of the process has broken the device while nothing ran there.
TEST_F(faults, a_stream_that_cannot_be_made_tells_that_the_device_is_lost) {
    fakes.first.works.tells_only_of_commands = true;
    sync(work(1), pool);
    break_down();
    std::vector<stream_lease> more;
    const auto lease = [&] {
        for (int i = 0; i < 100; ++i) more.emplace_back(fakes.on);
    };
    EXPECT_THAT(fault_of(lease), testing::HasSubstr("the driver's stream failed"));
    EXPECT_TRUE(fakes.on.is_poisoned());
    EXPECT_THAT(fault_of([&] { sync(work(1), pool); }), testing::HasSubstr("the driver's stream failed"));
}

TEST_F(faults, a_question_about_memory_tells_that_the_device_is_lost) {
    fakes.first.works.tells_only_of_commands = true;
    sync(work(1), pool);
    break_down();
    EXPECT_THAT(fault_of([&] { static_cast<void>(fakes.on.memory()); }),
                testing::HasSubstr("the driver's answer failed"));
    EXPECT_TRUE(fakes.on.is_poisoned());
    EXPECT_FALSE(fakes.other.is_poisoned());
}

TEST_F(faults, the_first_cause_wins) {
    fakes.first.works.hold();
    auto future = spawn(work(1), pool);
    fakes.on.poison(std::make_exception_ptr(device_error(errc::device_failed, "first", {"", "fake:0"})));
    fakes.on.poison(std::make_exception_ptr(device_error(errc::device_failed, "second", {"", "fake:0"})));
    break_down("third");
    EXPECT_EQ(failure_of(std::move(future)), "fake:0: first");
    EXPECT_EQ(failure_of([&] { sync(work(1), pool); }), "fake:0: first");
}

TEST_F(faults, work_known_to_be_complete_stays_complete) {
    auto complete = spawn(work(5), pool);
    complete.wait();
    fakes.first.works.hold();
    auto incomplete = spawn(work(6), pool);
    break_down();
    notice();
    EXPECT_TRUE(complete.is_ready());
    EXPECT_EQ(std::move(complete).get(), numbers(size, 5));
    EXPECT_EQ(fault_of([&] { std::move(incomplete).get(); }), told);
}

TEST_F(faults, a_host_call_after_the_fault_never_runs_and_what_it_owned_is_released) {
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    bool ran = false;
    {
        faulty_runtime short_lived;
        round_robin streams(short_lived.on, 2);
        short_lived.first.works.hold();
        auto future = spawn(host_call([mine = std::move(owned), &ran] { ran = true; }), streams);
        short_lived.first.works.fault("broken");
        EXPECT_EQ(failure_of(std::move(future)), told);
    }
    EXPECT_TRUE(watch.expired());
    EXPECT_FALSE(ran);
}

TEST_F(faults, a_long_chain_of_host_calls_is_dropped_without_recursion) {
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = owned;
    {
        faulty_runtime short_lived;
        single_stream one(short_lived.on);
        stream home = one.next();
        auto x = submit_to(home, zeros<unsigned>({size}));
        short_lived.first.works.hold();
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        execution_context context(home);
        for (int i = 0; i < 100'000; ++i) context.stream().host_call({"link", accesses}, {[owned] {}});
        owned.reset();
        short_lived.first.works.fault("broken");
        EXPECT_EQ(failure_of([&] { context.submission()->await_completion({}); }), told);
    }
    EXPECT_TRUE(watch.expired());
}

TEST_F(faults, another_device_of_the_same_runtime_continues) {
    fakes.first.works.hold();
    auto ours = spawn(work(1), pool);
    auto theirs = spawn(work(2), other);
    break_down();
    EXPECT_EQ(fault_of([&] { std::move(ours).get(); }), told);
    EXPECT_EQ(std::move(theirs).get(), numbers(size, 2));
    for (unsigned i = 0; i < 20; ++i) {
        EXPECT_EQ(sync(work(i), other), numbers(size, i));
        EXPECT_EQ(sync_wait(spawn(work(i), other)), numbers(size, i));
    }
    EXPECT_FALSE(fakes.other.is_poisoned());
}

TEST_F(faults, memory_that_the_device_may_still_use_is_not_freed) {
    sync(zip(work(1), work(2)), pool);
    fakes.on.trim();
    const std::size_t blocks = fakes.first.memory.blocks();
    fakes.first.works.hold();
    auto x = submit_to(a, zeros<unsigned>({size}));
    auto y = submit_to(a, full<unsigned>({size}, 1));
    break_down();
    notice();
    x = {};
    y = {};
    fakes.on.trim();
    EXPECT_EQ(fakes.first.memory.blocks(), blocks + 2);
    EXPECT_EQ(fault_of([&] { a.allocate(size * sizeof(unsigned)); }), told);
}

TEST_F(faults, everything_may_be_dropped_afterwards) {
    auto short_lived = std::make_unique<faulty_runtime>();
    auto streams = std::make_unique<round_robin>(short_lived->on, 3);
    short_lived->first.works.hold();
    std::vector<device_future<pending<numbers>>> futures;
    for (unsigned i = 0; i < 10; ++i) futures.push_back(spawn(work(i), *streams));
    auto tensor = submit_to(streams->next(), zeros<unsigned>({size}));
    streams->next().workspace(1000);
    auto staged = spawn(work(1).or_else([](std::exception_ptr) { return value(numbers(1, 1)); }), *streams);
    short_lived->first.works.fault("broken");
    short_lived.reset();
    EXPECT_EQ(std::move(staged).get(), numbers(1, 1));
    EXPECT_EQ(failure_of(std::move(futures[3])), told);
    tensor = {};
    streams.reset();
    futures.clear();
}

TEST_F(faults, a_value_recovers) {
    fakes.first.works.hold();
    bool called = false;
    auto recovered = spawn(work(1).or_else([&](std::exception_ptr failure) {
        called = true;
        EXPECT_EQ(fault_of([&] { std::rethrow_exception(failure); }), told);
        return value(numbers(2, 2));
    }),
                           pool);
    break_down();
    EXPECT_EQ(std::move(recovered).get(), numbers(2, 2));
    EXPECT_TRUE(called);
    auto later = work(1).or_else([](std::exception_ptr) { return value(numbers(3, 3)); });
    EXPECT_EQ(sync(std::move(later), pool), numbers(3, 3));
}

TEST_F(faults, a_recovery_that_needs_the_device_is_refused_with_the_first_cause) {
    fakes.first.works.hold();
    auto again = spawn(work(1).or_else([](std::exception_ptr) { return work(2); }), pool);
    break_down();
    EXPECT_EQ(fault_of([&] { std::move(again).get(); }), told);
}

TEST_F(faults, a_retry_stops) {
    fakes.first.works.hold();
    std::atomic<int> made = 0;
    auto attempts = spawn(retry(1000, [&] { return ++made, work(1); }), pool);
    break_down();
    EXPECT_EQ(fault_of([&] { std::move(attempts).get(); }), told);
    EXPECT_EQ(made, 1);
}

TEST_F(faults, a_timeout_reports_the_fault) {
    fakes.first.works.hold();
    auto waiting = spawn(timeout(work(1), std::chrono::hours(1)), pool);
    break_down();
    EXPECT_EQ(fault_of([&] { std::move(waiting).get(); }), told);
}

TEST_F(faults, every_user_of_shared_work_receives_the_fault) {
    fakes.first.works.hold();
    const auto weights = share(work(1));
    auto one = weights, two = weights;
    auto [left, right] = unzip(zip(work(1), work(2)));
    auto first = spawn(std::move(one), pool);
    auto second = spawn(std::move(two), pool);
    auto third = spawn(std::move(left), pool);
    break_down();
    EXPECT_EQ(fault_of([&] { std::move(third).get(); }), told);
    EXPECT_EQ(fault_of([&] { std::move(second).get(); }), told);
    EXPECT_EQ(fault_of([&] { std::move(first).get(); }), told);
    EXPECT_EQ(fault_of([&] { sync(std::move(right), pool); }), told);
}

TEST_F(faults, a_failure_before_the_fault_is_reported_unchanged) {
    auto failed = spawn(failing_number("mine"), pool);
    failed.wait();
    break_down();
    notice();
    EXPECT_EQ(failure_of(std::move(failed)), "mine");
}

}  // namespace sluice::faults::fault_tests
