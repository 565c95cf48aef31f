// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels launch, on the simulator: with graphs that they launch themselves, pinned memory and updates,
// they are clean and give one result in every schedule.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "graph/support/launching_kernels.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::launchable_tests {
namespace {

using conformance::adding;
using conformance::how;
using conformance::launched_once;
using conformance::launching;
using conformance::set_state;
using conformance::state_of;

using changing = std::function<any_operation<tensor<int>>(tensor<int>)>;

// x = in + by; out = x.
changing passes_on(const pinned_tensor<int>& in, const pinned_tensor<int>& out, int by) {
    return [=](tensor<int>) -> any_operation<tensor<int>> {
        return in.load().and_then(adding(by)).and_then([=](tensor<int> x) { return out.store(std::move(x)); });
    };
}

std::vector<int> run_nested(scheduling_policy& pool) {
    device& on = pool.next().owner();
    const pinned_tensor<int> in(on, {4}), out(on, {4});
    const auto leaf = launchable(on, passes_on(in, out, 1), device_input<int>({4}));
    const auto middle =
        launchable(on, [=](tensor<int> x) { return launching(leaf, how::tail, std::move(x)); }, device_input<int>({1}));
    set_state(middle, {0}, pool);
    const auto through_middle = launched_once(on, middle, how::tail);
    const auto direct = launched_once(on, leaf, how::fire_and_forget);
    std::vector<int> all;
    for (int i = 0; i < 3; ++i) {
        in.write(std::vector<int>(4, 10 * i));
        auto first = spawn(through_middle(), pool);
        in.write(std::vector<int>(4, 100 * i));
        if (i == 1) static_cast<void>(leaf.update(passes_on(in, out, 2)));
        all.push_back(out.read()[3]);
        auto second = spawn(direct(), pool);
        all.push_back(out.read()[0]);
        all.push_back(std::move(first).get()[0]);
        all.push_back(std::move(second).get()[0]);
    }
    all.push_back(state_of(middle, pool)[0]);
    all.push_back(state_of(leaf, pool)[0]);
    return all;
}

}  // namespace

TEST(launchable_graphs, give_one_result_in_every_schedule) {
    const exploration made = explore([](scheduling_policy& pool) { return run_nested(pool); }, {.schedules = 1'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    simulator machine;
    // For i = 1 the update comes after the first launch and before the second one.
    EXPECT_EQ(run_nested(machine.pool()), (std::vector<int>{1, 1, 1, 1, 11, 102, 1, 1, 22, 202, 1, 1, 3, 202}));
}

TEST(launchable_graphs, report_the_breakdown_of_their_device) {
    const exploration made = explore([](scheduling_policy& pool) { return run_nested(pool); },
                                     {.schedules = 300, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_GT(made.faults, 100u);
}

}  // namespace sluice::sim::launchable_tests
