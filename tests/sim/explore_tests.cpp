// Pipelines that are right are found so, whatever the order; and what is found wrong can be brought back.
#include <gtest/gtest.h>

#include <numeric>

#include "sim/pipelines.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"
#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim {
namespace {

using numbers = std::vector<float>;

exploration_options few(std::uint64_t schedules) { return {.schedules = schedules}; }

void expect_clean(const exploration& made) {
    EXPECT_TRUE(made.is_clean()) << (made.found ? to_string(*made.found) : "");
    EXPECT_GT(made.commands, 0u);
}

}  // namespace

TEST(explore, four_batches_of_the_example_are_clean) {
    simulator machine;
    auto [first, second] = sync(zip(upload(ramp(dim * dim), {dim, dim}), upload(ramp(dim), {dim})), machine.pool());
    const shared_tensor<float> w0(std::move(first)), w1(std::move(second));
    const auto made =
        explore(machine, [&](scheduling_policy& pool) { return run_batches(pool, w0, w1, 4); }, few(20'000));
    expect_clean(made);
    EXPECT_EQ(made.schedules, 20'000u);
    EXPECT_EQ(made.commands, 20'001u * 4 * 7);
}

}  // namespace sluice::sim
