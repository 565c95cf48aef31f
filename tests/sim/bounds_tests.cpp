// SPDX-License-Identifier: Apache-2.0
// The simulator and kernels that check their bounds: in every order of the device's work an access out of range fails
// the command and what reads its results, and nothing else.
#undef SLUICE_CHECK_BOUNDS
#define SLUICE_CHECK_BOUNDS 1
#include <gtest/gtest.h>

#include <string>

#include "sluice/sim/explore.hpp"
#include "sluice/sluice.hpp"
#include "support/bounds_kernels.hpp"

namespace sluice::sim::bounds_tests {
namespace {

using test_support::reads_beyond_a_view;

auto broken() {
    return zip(full<float>({10}, 7), zeros<float>({10})).and_then([](auto x, auto out) {
        auto range = each_of(out);
        return launch(reads_beyond_a_view{}, range, std::move(x), std::move(out));
    });
}
auto healthy() { return full<float>({3}, 5).and_then(download); }

// Runs both at the same time. Gives the numbers of the healthy one, and 1 when the other one failed as it must.
template <typename Run>
std::vector<float> both(scheduling_policy& pool, std::string& text, Run&& run_broken) {
    auto other = spawn(healthy(), pool);
    float failed = 0;
    try {
        run_broken();
    } catch (const error& found) {
        text = found.what();
        failed = found.code() == errc::out_of_range && found.operation() == "reads_beyond_a_view" ? 1 : 0;
    }
    std::vector<float> all = std::move(other).get();
    all.push_back(failed);
    EXPECT_EQ(all, (std::vector<float>{5, 5, 5, 1})) << text;
    return all;
}

TEST(bounds_in_the_simulator, only_the_kernel_and_its_readers_fail) {
    std::string text;
    const exploration made = explore(
        [&](scheduling_policy& pool) { return both(pool, text, [&] { sync(broken().and_then(download), pool); }); },
        {.schedules = 300});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    const std::string place = "bounds_kernels.hpp:" + std::to_string(reads_beyond_a_view::line);
    EXPECT_NE(text.find("element 9 of a view is out of range: its size is 9 (accessed at "), text.npos) << text;
    EXPECT_NE(text.find(place), text.npos) << text;
}

TEST(bounds_in_the_simulator, a_graph_fails_and_can_run_again) {
    std::string text;
    const exploration made = explore(
        [&](scheduling_policy& pool) {
            const auto graph = compile(pool, [] { return broken().and_then(download); });
            both(pool, text, [&] { sync(graph(), pool); });
            return both(pool, text, [&] { sync(graph(), pool); });
        },
        {.schedules = 300});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_NE(text.find("element 9 of a view is out of range"), text.npos) << text;
}

}  // namespace
}  // namespace sluice::sim::bounds_tests
