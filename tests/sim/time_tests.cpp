// SPDX-License-Identifier: Apache-2.0
// Deadlines of waits and of operations in the simulator's virtual time.
#include <gmock/gmock.h>

#include "sim/saboteurs.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::time_tests {
namespace {

using namespace std::chrono_literals;
using numbers = std::vector<float>;

const shape flat{8};

// Each command takes from 0.1 to 10.1 us, so all five take from 0.5 to 51 us.
auto five_commands() {
    return upload(numbers(flat.size(), 1))
        .and_then([](auto x) { return launch(set_all{}, each_of(x), 2.f, std::move(x)); })
        .and_then([](auto x) { return launch(set_all{}, each_of(x), 3.f, std::move(x)); })
        .and_then([](auto x) { return launch(set_all{}, each_of(x), 4.f, std::move(x)); })
        .and_then(download);
}

bool is_in_time(simulator& machine, std::uint64_t seed, std::chrono::microseconds limit) {
    machine.begin(seed);
    bool in_time = true;
    try {
        sync(timeout(five_commands(), limit), machine.pool());
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::timed_out);
        in_time = false;
    }
    machine.run_all();
    machine.require_clean();
    return in_time;
}

}  // namespace

TEST(simulated_time, a_long_timeout_never_expires_and_a_short_one_always_does) {
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        EXPECT_TRUE(is_in_time(machine, seed, 1h));
        EXPECT_FALSE(is_in_time(machine, seed, 0us));
    }
}

TEST(simulated_time, a_medium_timeout_expires_in_some_schedules_and_the_same_ones_each_time) {
    simulator machine;
    int in_time = 0;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        const bool first = is_in_time(machine, seed, 25us);
        EXPECT_EQ(is_in_time(machine, seed, 25us), first) << "seed " << seed;
        in_time += first ? 1 : 0;
    }
    EXPECT_GT(in_time, 50);
    EXPECT_LT(in_time, 450);
}

TEST(simulated_time, an_operation_may_time_out_at_any_moment) {
    const auto pipeline = [](scheduling_policy& pool) -> task<> {
        auto given_up = spawn(timeout(five_commands(), 20us), pool);
        auto other = spawn(five_commands(), pool);
        auto recovered =
            spawn(timeout(five_commands(), 15us).or_else([](std::exception_ptr) { return five_commands(); }), pool);
        auto again = spawn(retry(3, [] { return timeout(five_commands(), 18us); }), pool);
        EXPECT_EQ(co_await std::move(recovered), numbers(flat.size(), 4));
        for (auto* each : {&given_up, &again}) {
            try {
                EXPECT_EQ(co_await std::move(*each), numbers(flat.size(), 4));
            } catch (const error& failure) {
                EXPECT_EQ(failure.code(), errc::timed_out);
            }
        }
        EXPECT_EQ(co_await std::move(other), numbers(flat.size(), 4));
    };
    const exploration made = explore(pipeline, {.schedules = 3'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(simulated_time, wait_for_on_the_host_counts_virtual_time) {
    simulator machine;
    int waited_in_vain = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        machine.begin(seed);
        auto future = spawn(five_commands(), machine.pool());
        const auto before = machine.now();
        const bool is_over = future.wait_for(5us);
        if (!is_over) {
            ++waited_in_vain;
            EXPECT_GE(machine.now() - before, 5us);
        }
        EXPECT_TRUE(future.wait_for(1h));
        EXPECT_LT(machine.now(), 1ms);
        EXPECT_EQ(std::move(future).get(), numbers(flat.size(), 4));
        machine.run_all();
        machine.require_clean();
    }
    EXPECT_GT(waited_in_vain, 100);
    EXPECT_LT(waited_in_vain, 200);
}

TEST(simulated_time, a_loop_of_waits_of_zero_length_ends) {
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        machine.begin(seed);
        auto future = spawn(five_commands(), machine.pool());
        while (!future.wait_for(0us)) {
        }
        EXPECT_EQ(std::move(future).get(), numbers(flat.size(), 4));
        machine.run_all();
        machine.require_clean();
    }
}

TEST(simulated_time, a_deadline_in_the_past_has_expired) {
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        machine.begin(seed);
        auto future = spawn(five_commands(), machine.pool());
        future.wait_until(std::chrono::steady_clock::now());
        EXPECT_LT(machine.now(), 1ms);
        EXPECT_THROW(sync(timeout_at(five_commands(), std::chrono::steady_clock::now()), machine.pool()), error);
        machine.run_all();
        machine.require_clean();
    }
}

TEST(simulated_time, a_task_that_never_ends_is_a_finding) {
    simulator machine;
    machine.begin(1);
    const auto waits_for_ever = []() -> task<> {
        struct never {
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<>) const noexcept {}
            void await_resume() const noexcept {}
        };
        co_await never();
    };
    EXPECT_THROW(machine.run(waits_for_ever()), std::runtime_error);
    ASSERT_FALSE(machine.findings().empty());
    EXPECT_EQ(machine.findings().front().what, fault::lost_wake_up);
}

// A delay of an hour takes no time here.
TEST(simulated_time, delays_of_retry_are_virtual_and_the_same_ones_each_time) {
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        machine.begin(seed);
        int calls = 0;
        const int answer = sync(timeout(retry(3, growing_delay{.first = 1h, .most = 2h, .jitter = 0},
                                              [&calls] {
                                                  return host_call([&calls] {
                                                      if (++calls < 3) throw std::runtime_error("not yet");
                                                      return 42;
                                                  });
                                              }),
                                        200min),
                                machine.pool());
        EXPECT_EQ(answer, 42);
        machine.run_all();
        machine.require_clean();
    }
    const auto pipeline = [](scheduling_policy& pool) -> task<> {
        auto in_time = spawn(
            timeout(retry(4, growing_delay{.first = 10us, .most = 20us}, [] { return timeout(five_commands(), 18us); }),
                    60us),
            pool);
        try {
            EXPECT_EQ(co_await std::move(in_time), numbers(flat.size(), 4));
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::timed_out);
        }
    };
    const exploration made = explore(pipeline, {.schedules = 1'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

}  // namespace sluice::sim::time_tests
