// SPDX-License-Identifier: Apache-2.0
// Work over several devices, in every order that the waits between them permit, and while one device breaks down.
#include <gtest/gtest.h>

#include "sim/examples.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/devices/collectives.hpp"
#include "sluice/devices/on_device.hpp"
#include "sluice/devices/replicate.hpp"
#include "sluice/devices/shard.hpp"
#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::device_set_tests {
namespace {

using numbers = std::vector<float>;
constexpr std::size_t size = 8;

device_set devices_of(simulator& machine, std::size_t count) {
    std::vector<device*> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(&machine.device(i));
    return device_set(std::move(all));
}

auto doubled(tensor<float> x) { return scale(std::move(x), 2.0f); }

// A tensor is copied from device to device and changed on each.
numbers go_round(simulator& machine) {
    const device_set all = devices_of(machine, 3);
    round_robin_devices pool(all, 2);
    any_operation<tensor<float>> x = on_device(all[0], full<float>({size}, 1));
    for (std::size_t lap = 1; lap < 6; ++lap) {
        device& next = all[lap % 3];
        x = std::move(x).and_then(copy_to(next)).and_then([&next](auto y) {
            return on_device(next, doubled(std::move(y)));
        });
    }
    return sync(std::move(x).and_then([&](auto y) { return on_device(all[2], download(std::move(y))); }), pool);
}

// Weights are replicated to each device, the batch is sharded, and the results are gathered on one.
numbers data_parallel(simulator& machine) {
    const device_set all = devices_of(machine, 3);
    round_robin_devices pool(all, 2);
    const auto weights = spawn(full<float>({size}, 3).and_then(replicate(all)), pool).get();
    auto batch =
        std::make_shared<std::vector<tensor<float>>>(spawn(shard(all, numbers(3 * size, 2), {3, size}), pool).get());
    return sync(on_each(all,
                        [=](std::size_t i) {
                            return add(std::move((*batch)[i]).reshape({size}), weights[i]).and_then(doubled);
                        })
                    .and_then(gather)
                    .and_then(download),
                pool);
}

// Each device computes, all_reduce sums the results, and each device continues with the sum.
std::vector<numbers> reduced(simulator& machine) {
    const communicator all(devices_of(machine, 3));
    round_robin_devices pool(all.devices(), 2);
    auto sums =
        spawn(on_each(all.devices(), [](std::size_t i) { return full<float>({size}, float(i)).and_then(doubled); })
                  .and_then([&](auto x) { return all_reduce(all, reduce_op::sum, std::move(x)); })
                  .and_then([&](auto x) {
                      auto parts = std::make_shared<std::vector<tensor<float>>>(std::move(x));
                      return on_each(all.devices(), [parts](std::size_t i) { return doubled(std::move((*parts)[i])); });
                  }),
              pool);
    return sync(download_each(std::move(sums).get()), pool);
}

// The host sums values from all devices.
unsigned summed_by_the_host(simulator& machine) {
    const device_set all = devices_of(machine, 3);
    round_robin_devices pool(all, 2);
    return sync(
        on_each(all, [](std::size_t i) { return full<float>({size}, float(i)).and_then(doubled); })
            .and_then(download_each)
            .and_then([](auto landed) {
                return host_call(
                    [](const std::vector<numbers>& each) { return unsigned(each[0][0] + each[1][1] + each[2][2]); },
                    std::move(landed));
            }),
        pool);
}

// Two devices with independent work, and one that needs the first device's result.
std::string errors_with_a_fault(simulator& machine) {
    const device_set all = devices_of(machine, 3);
    round_robin_devices pool(all, 2);
    auto first = spawn(on_device(all[0], full<float>({size}, 1).and_then(doubled)), pool);
    auto own = spawn(on_device(all[1], full<float>({size}, 2).and_then(doubled).and_then(download)), pool);
    auto needy = spawn(copy_to(all[2], std::move(first).get()).and_then([&](auto x) {
        return on_device(all[2], doubled(std::move(x)).and_then(download));
    }),
                       pool);
    EXPECT_EQ(std::move(own).get(), numbers(size, 4));
    EXPECT_EQ(std::move(needy).get(), numbers(size, 4));
    return "";
}

class drops_all_waits final : public saboteur {
public:
    std::optional<stream_wait> wait(const stream_wait&) override { return {}; }
};

exploration_options on_three(bool with_faults = false) {
    return {.schedules = with_faults ? 3000u : 1500u, .devices = 3, .with_device_faults = with_faults};
}

}  // namespace

TEST(sim_device_sets, a_tensor_copied_around_the_devices_is_the_same_in_all_orders) {
    const exploration result = explore(go_round, on_three());
    EXPECT_NO_THROW(result.require_clean());
    EXPECT_EQ(result.schedules, 1500u);
    simulator machine({.devices = 3});
    EXPECT_EQ(go_round(machine), numbers(size, 32));
}

TEST(sim_device_sets, weights_and_shards_are_the_same_in_all_orders) {
    EXPECT_NO_THROW(explore(data_parallel, on_three()).require_clean());
    simulator machine({.devices = 3});
    EXPECT_EQ(data_parallel(machine), numbers(3 * size, 10));
}

TEST(sim_device_sets, collectives_are_the_same_in_all_orders) {
    EXPECT_NO_THROW(explore(reduced, on_three()).require_clean());
    simulator machine({.devices = 3});
    EXPECT_EQ(reduced(machine), std::vector(3, numbers(size, 12)));
}

TEST(sim_device_sets, a_host_call_on_values_of_all_devices_is_the_same_in_all_orders) {
    EXPECT_NO_THROW(explore(summed_by_the_host, on_three()).require_clean());
    EXPECT_NO_THROW(explore(summed_by_the_host, on_three(true)).require_clean());
    simulator machine({.devices = 3});
    EXPECT_EQ(summed_by_the_host(machine), 6u);
}

// The host throws the exception that it received. The exploration checks that it is the one cause and that every wait
// ends.
TEST(sim_device_sets, one_device_may_break_down_at_any_command) {
    for (const auto& pipeline : {go_round, data_parallel}) {
        const exploration result = explore(pipeline, on_three(true));
        EXPECT_NO_THROW(result.require_clean());
        EXPECT_GT(result.faults, 1000u);
    }
    EXPECT_NO_THROW(explore(reduced, on_three(true)).require_clean());
    EXPECT_NO_THROW(explore(errors_with_a_fault, on_three(true)).require_clean());
}

TEST(sim_device_sets, data_parallel_mlp_is_clean_on_two_devices_with_and_without_breakdowns) {
    EXPECT_NO_THROW(explore(small_data_parallel_mlp, {.schedules = 1000, .devices = 2}).require_clean());
    EXPECT_NO_THROW(explore(small_data_parallel_mlp, {.schedules = 1000, .devices = 2, .with_device_faults = true})
                        .require_clean());
}

// A missing wait between devices is found.
TEST(sim_device_sets, a_missing_wait_between_devices_is_a_race) {
    for (const auto& pipeline : {go_round, data_parallel}) {
        drops_all_waits fault_of_ours;
        exploration_options options = on_three();
        options.planted = &fault_of_ours;
        const exploration result = explore(pipeline, options);
        ASSERT_TRUE(result.found);
        EXPECT_EQ(result.found->what, fault::race);
    }
}

}  // namespace sluice::sim::device_set_tests
