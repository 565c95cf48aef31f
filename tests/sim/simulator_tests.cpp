// SPDX-License-Identifier: Apache-2.0
// The simulator itself: virtual time, seeds, devices, lifetimes.
#include <gtest/gtest.h>

#include <optional>

#include "sim/small_pipelines.hpp"

namespace sluice::sim {

TEST(simulator, time_is_virtual_and_determined_by_the_seed) {
    const auto run = [](std::uint64_t seed) {
        simulator machine;
        machine.begin(seed);
        const auto y = sync(arm(1).and_then(download), machine.pool());
        machine.run_all();
        machine.require_clean();
        return machine.now();
    };
    EXPECT_EQ(run(7), run(7));
    EXPECT_NE(run(7), run(8));
    EXPECT_GT(run(7).count(), 0);
}

TEST(simulator, a_schedule_depends_on_its_seed_and_not_on_earlier_schedules) {
    const auto run = [](simulator& machine, std::uint64_t seed) {
        machine.begin(seed);
        round_robin pool(machine.device(), 4);
        const auto weights = share(upload(ramp(dim * dim), {dim, dim}));
        const auto vector = share(upload(ramp(dim)));
        std::vector<device_future<pending<numbers>>> all;
        for (int i = 0; i < 4; ++i) {
            all.push_back(
                spawn(zip(weights, vector).and_then([](auto w0, auto w1) { return forward(ramp(dim * dim), w0, w1); }),
                      pool));
        }
        all.erase(all.begin() + 1);
        for (auto& each : all) std::move(each).get();
        machine.run(awaits_one(pool, 2));
        machine.run_all();
        machine.require_clean();
        return machine.now();
    };
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        simulator fresh;
        ASSERT_EQ(run(machine, seed), run(fresh, seed)) << "seed " << seed;
    }
}

// The queue grows while the first command in it runs.
TEST(simulator, a_host_call_submits_to_its_own_stream) {
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        machine.begin(seed);
        {
            stream on = machine.pool().next();
            const auto owned = std::make_shared<int>(7);
            int seen = 0;
            on.host_call({"outer"}, {[&seen, on, owned]() mutable {
                             for (int i = 0; i < 100; ++i) on.host_call({"inner"}, {[&seen] { ++seen; }});
                             seen += *owned;
                         }});
            machine.run_all();
            EXPECT_EQ(seen, 107);
        }
        machine.require_clean();
    }
}

TEST(simulator, events_are_stamped_in_virtual_time) {
    simulator machine;
    machine.begin(3);
    stream on = machine.pool().next();
    event before = event::record(on);
    const tensor<float> x(on, flat);
    set(on, x, 1);
    event after = event::record(on);
    EXPECT_GT(elapsed(before, after).count(), 0.1);
    EXPECT_LT(elapsed(before, after).count(), 11);
}

TEST(simulator, has_the_requested_number_of_devices) {
    simulator machine({.devices = 2});
    single_stream one(machine.device(0)), other(machine.device(1));
    const auto made = explore(machine, [&](scheduling_policy&) {
        auto first = spawn(arm(1).and_then(download), one);
        auto second = spawn(upload(std::move(first).get()).and_then(download), other);
        return std::move(second).get();
    });
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_THROW(machine.device(2), error);
}

TEST(simulator, tensors_and_futures_may_outlive_it) {
    std::optional<tensor<float>> left;
    std::optional<device_future<pending<numbers>>> future;
    {
        simulator machine;
        left = sync(arm(1), machine.pool());
        future.emplace(spawn(arm(2).and_then(download), machine.pool()));
    }
    EXPECT_EQ(std::move(*future).get(), numbers(flat.size(), 5));
    EXPECT_EQ(left->size(), flat.size());
}

TEST(simulator, refuses_more_than_fifteen_streams) {
    simulator machine;
    EXPECT_THROW(round_robin(machine.device(), 16), error);
}

}  // namespace sluice::sim
