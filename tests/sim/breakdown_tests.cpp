// SPDX-License-Identifier: Apache-2.0
// A device breaks down at any command of any schedule: each waiter receives the first cause, every wait ends, and
// memory that commands in flight may still use is not touched.
#include <gmock/gmock.h>

#include "sim/examples.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/async/when_all.hpp"

namespace sluice::sim::breakdown_tests {
namespace {

using namespace std::chrono_literals;
using numbers = std::vector<float>;
using testing::HasSubstr;

const shape flat{8};

auto work(float start) {
    return upload(numbers(flat.size(), start))
        .and_then([](auto x) { return zip(zeros<float>(flat), value(std::move(x))); })
        .and_then([](auto to, auto from) { return launch(add_all{}, each_of(to), std::move(from), std::move(to)); })
        .and_then(download);
}

// The error that a waiter received; empty when it got the expected value.
template <typename Get>
std::string told(float expected, Get&& get) {
    try {
        return get() == numbers(flat.size(), expected) ? "" : "got something else";
    } catch (const device_error& failure) {
        return failure.what();
    } catch (const std::exception& failure) {
        return std::string("not a fault of a device: ") + failure.what();
    }
}

task<std::string> error_in_coroutine(device_future<pending<numbers>> future, float expected) {
    numbers got;
    std::string failure;
    try {
        got = co_await std::move(future);
    } catch (const std::exception& thrown) {
        failure = thrown.what();
    }
    co_return failure.empty() ? told(expected, [&] { return got; }) : failure;
}

// Each waiter received the one cause or the expected value.
void expect_one_cause(const std::vector<std::string>& all) {
    std::string cause;
    for (const std::string& each : all) {
        if (each.empty() || testing::Test::HasFailure())
            continue;  // otherwise thousands of schedules would repeat the failure
        if (cause.empty()) cause = each;
        EXPECT_EQ(each, cause);
        EXPECT_THAT(each, HasSubstr("broken down by the simulator"));
    }
}

// Explores without breakdowns and with them; returns in how many of the latter a waiter received the error.
template <typename Pipeline>
std::uint64_t explore_errors(Pipeline pipeline, exploration_options options = {}) {
    std::uint64_t times = 0;
    const auto counted = [&](scheduling_policy& pool) {
        const std::vector<std::string> all = pipeline(pool);
        expect_one_cause(all);
        times += std::ranges::any_of(all, [](const std::string& each) { return !each.empty(); }) ? 1 : 0;
    };
    options.schedules = 2'000;
    const exploration sound = explore(counted, options);
    EXPECT_TRUE(sound.is_clean()) << *sound.found;
    EXPECT_EQ(sound.faults, 0u);
    EXPECT_EQ(times, 0u);
    options.with_device_faults = true;
    const exploration broken = explore(counted, options);
    EXPECT_TRUE(broken.is_clean()) << *broken.found;
    EXPECT_EQ(broken.schedules, 2'000u);
    EXPECT_GT(broken.faults, 1'000u);
    EXPECT_LE(times, broken.faults);
    return times;
}

}  // namespace

TEST(breakdown, threads_in_get_receive_the_cause) {
    const auto pipeline = [](scheduling_policy& pool) {
        std::vector<std::string> all;
        try {
            auto first = spawn(work(1), pool);
            auto second = spawn(work(2), pool);
            all.push_back(told(2, [&] { return std::move(second).get(); }));
            all.push_back(told(3, [&] { return sync(work(3), pool); }));
            all.push_back(told(1, [&] { return std::move(first).get(); }));
        } catch (const device_error& refused) {
            all.emplace_back(refused.what());
        }
        return all;
    };
    EXPECT_GT(explore_errors(pipeline), 1'000u);
}

TEST(breakdown, threads_in_wait_for_receive_the_cause) {
    const auto pipeline = [](scheduling_policy& pool) {
        std::vector<std::string> all;
        try {
            auto future = spawn(work(1), pool);
            if (!future.wait_for(1h)) all.emplace_back("waited for an hour");
            all.push_back(told(1, [&] { return std::move(future).get(); }));
        } catch (const device_error& refused) {
            all.emplace_back(refused.what());
        }
        return all;
    };
    EXPECT_GT(explore_errors(pipeline), 1'000u);
}

TEST(breakdown, coroutines_receive_the_cause) {
    std::uint64_t times = 0;
    const auto pipeline = [&](scheduling_policy& pool) -> task<> {
        std::vector<std::string> all;
        std::string refused;
        try {
            auto first = error_in_coroutine(spawn(work(1), pool), 1);
            auto second = error_in_coroutine(spawn(work(2), pool), 2);
            auto both = when_all(std::move(first), std::move(second));
            auto [a, b] = co_await std::move(both);
            all = {a, b};
        } catch (const device_error& thrown) {
            refused = thrown.what();
        }
        all.push_back(refused);
        expect_one_cause(all);
        times += all != std::vector<std::string>(all.size()) ? 1 : 0;
    };
    const exploration made = explore(pipeline, {.schedules = 2'000, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_GT(times, 1'000u);
}

TEST(breakdown, every_reader_of_a_shared_value_receives_the_cause) {
    const auto pipeline = [](scheduling_policy& pool) {
        std::vector<std::string> all;
        try {
            const auto weights = share(upload(numbers(flat.size(), 1)));
            const auto reader = [&] {
                return zip(weights, zeros<float>(flat))
                    .and_then([](auto w, auto x) { return launch(add_all{}, each_of(x), std::move(w), std::move(x)); })
                    .and_then(download);
            };
            auto first = spawn(reader(), pool);
            auto second = spawn(reader(), pool);
            all.push_back(told(1, [&] { return std::move(second).get(); }));
            all.push_back(told(1, [&] { return std::move(first).get(); }));
        } catch (const device_error& refused) {
            all.emplace_back(refused.what());
        }
        return all;
    };
    EXPECT_GT(explore_errors(pipeline), 1'000u);
}

TEST(breakdown, recovery_with_a_value_hides_it_and_recovery_on_the_device_reports_it) {
    const auto recovers = [](scheduling_policy& pool) {
        return sync(work(1).or_else([](std::exception_ptr) { return value(numbers(flat.size(), 1)); }), pool);
    };
    const exploration hidden = explore(recovers, {.schedules = 2'000, .with_device_faults = true});
    EXPECT_TRUE(hidden.is_clean()) << *hidden.found;
    EXPECT_GT(hidden.faults, 1'000u);
    const auto pipeline = [](scheduling_policy& pool) {
        std::vector<std::string> all;
        all.push_back(told(1, [&] { return sync(retry(3, [] { return work(1); }), pool); }));
        all.push_back(told(2, [&] { return sync(timeout(work(2), 1h), pool); }));
        all.push_back(told(3, [&] { return sync(work(3).or_else([](std::exception_ptr) { return work(3); }), pool); }));
        return all;
    };
    EXPECT_GT(explore_errors(pipeline), 1'000u);
}

TEST(breakdown, memory_of_dropped_futures_in_flight_is_not_touched) {
    const auto drops = [](scheduling_policy& pool) {
        spawn(work(1), pool);
        auto kept = spawn(work(2), pool);
        {
            const auto third = spawn(zip(work(3), work(4)), pool);
        }
        pool.next().owner().trim();  // memory that may still be used is not freed
        auto late = spawn(work(5), pool);
        kept.wait();
    };
    const exploration made = explore(drops, {.schedules = 2'000, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_GT(made.faults, 1'000u);
}

TEST(breakdown, an_allocation_short_of_memory_does_not_wait_for_ever) {
    const auto pipeline = [](scheduling_policy& pool) {
        std::vector<std::string> all;
        try {
            auto first = spawn(work(1), pool);
            auto second = spawn(work(2), pool);
            auto third = spawn(work(3), pool);
            all.push_back(told(3, [&] { return std::move(third).get(); }));
            all.push_back(told(1, [&] { return std::move(first).get(); }));
            all.push_back(told(2, [&] { return std::move(second).get(); }));
        } catch (const device_error& refused) {
            all.emplace_back(refused.what());
        }
        return all;
    };
    explore_errors(pipeline, {.memory_bytes = 3 * 512});
}

TEST(breakdown, another_device_continues) {
    simulator machine({.devices = 2});
    machine.begin(5);
    single_stream ours(machine.device(0)), theirs(machine.device(1));
    machine.break_down_after(2);
    EXPECT_FALSE(machine.breakdown());
    EXPECT_NE(told(1, [&] { return sync(work(1), ours); }), "");
    EXPECT_TRUE(machine.breakdown());
    EXPECT_TRUE(machine.device(0).is_poisoned());
    EXPECT_EQ(told(2, [&] { return sync(work(2), theirs); }), "");
    machine.run_all();
    machine.require_clean();
}

class breakdowns_of_examples : public testing::TestWithParam<example> {};
INSTANTIATE_TEST_SUITE_P(, breakdowns_of_examples, testing::ValuesIn(examples),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(breakdowns_of_examples, end_with_the_one_cause) {
    const exploration made = GetParam().explore({.schedules = 3'000, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, 3'000u);
    EXPECT_GT(made.faults, 2'000u);
}

// Faults of the runtime in handling a breakdown are found.

namespace {

// Hides a breakdown; once active, it reports all commands as passed and lets no wait block.
class hides_breakdowns final : public saboteur {
public:
    bool reports_breakdowns() noexcept override { return false; }
    bool awaits(std::size_t, ticket) override { return !is_active; }
    ticket passed(std::size_t, ticket passed, ticket issued) noexcept override { return is_active ? issued : passed; }

    bool is_active = false;
};

class hidden_breakdown : public testing::Test {
protected:
    hidden_breakdown() {
        machine.begin(0);
        machine.break_down_after(1);
    }
    // Breaks down with two commands in flight; the second never runs.
    void break_down() {
        while (!machine.breakdown()) on.poll();
        planted.is_active = true;
        machine.require_clean();
    }
    finding found() {
        EXPECT_FALSE(machine.findings().empty());
        return machine.findings().empty() ? finding() : machine.findings().front();
    }

    hides_breakdowns planted;
    simulator machine{{.planted = &planted}};
    single_stream one{machine.device()};
    stream on = one.next();
};

}  // namespace

TEST(breakdown, one_that_is_never_reported_is_found) {
    hides_breakdowns planted;
    const auto made = explore(
        [](scheduling_policy& pool) -> task<> {
            auto future = spawn(work(1), pool);
            static_cast<void>(co_await std::move(future));
        },
        {.schedules = 1'000, .with_device_faults = true, .planted = &planted});
    ASSERT_FALSE(made.is_clean());
    EXPECT_THAT(made.found->what, testing::AnyOf(fault::lost_wake_up, fault::deadlock)) << *made.found;
}

TEST_F(hidden_breakdown, is_found_when_a_pending_value_is_opened_that_was_never_written) {
    auto landed = spawn(zeros<float>(flat).and_then(download), one);
    break_down();
    std::move(landed).get();
    EXPECT_EQ(found().what, fault::early_read);
    EXPECT_THAT(found().message, HasSubstr("may still write: it was in flight when the device broke down"));
}

TEST_F(hidden_breakdown, is_found_when_memory_in_use_by_a_command_is_freed) {
    {
        const tensor<float> x(on, flat);
        set(on, x, 1);
        set(on, x, 2);
    }
    break_down();
    machine.device().trim();
    EXPECT_EQ(found().what, fault::use_after_free);
    EXPECT_THAT(found().message, HasSubstr("may still write: it was in flight when the device broke down"));
}

TEST_F(hidden_breakdown, is_found_when_the_host_writes_memory_that_a_command_may_still_read) {
    host_buffer<float> from(on, flat.size());
    std::ranges::fill(from.write(), 1.f);
    const tensor<float> x(on, flat);
    set(on, x, 1);
    sluice::detail::copy_bytes(on, {"upload"}, *x.memory(), *from.memory(), x.size_bytes(),
                               copy_direction::host_to_device);
    break_down();
    std::ranges::fill(from.write(), 2.f);
    EXPECT_EQ(found().what, fault::race);
    EXPECT_THAT(found().message, HasSubstr("may still read: it was in flight when the device broke down"));
}

TEST(breakdown, an_exception_that_is_not_the_cause_is_found) {
    const auto blames_another = [](scheduling_policy& pool) {
        try {
            sync(work(1), pool);
        } catch (const device_error&) {
            throw std::runtime_error("something went wrong");
        }
    };
    const exploration made = explore(blames_another, {.schedules = 100, .with_device_faults = true});
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::exception);
    EXPECT_THAT(made.found->message, HasSubstr("something went wrong; it should have received the device's fault"));
    const exploration again =
        explore(blames_another, {.schedules = 1, .seed = made.found->seed, .with_device_faults = true});
    EXPECT_EQ(to_string(again.found.value()), to_string(*made.found));
}

TEST(breakdown, is_refused_on_the_callers_simulator) {
    simulator machine;
    const auto pipeline = [] { return work(1); };
    EXPECT_THROW(explore(machine, pipeline, {.with_device_faults = true}), error);
}

}  // namespace sluice::sim::breakdown_tests
