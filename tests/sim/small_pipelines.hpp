// SPDX-License-Identifier: Apache-2.0
// Small pipelines for the tests of the explorer and the simulator, and the check that each order of them is clean.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "sim/pipelines.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim {

using numbers = std::vector<float>;

inline const shape flat{8};

template <typename Pipeline>
void expect_clean(Pipeline pipeline, exploration_options options = {}) {
    options.schedules = std::min<std::uint64_t>(options.schedules, 2'000);
    const exploration made = explore(pipeline, options);
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, options.schedules);
}

inline auto step(tensor<float> x, float addend) {
    return upload(numbers(x.size(), addend)).and_then([to = std::move(x)](auto more) mutable {
        return launch(add_all{}, each_of(to), std::move(more), std::move(to));
    });
}

// Enough commands to occupy one stream.
inline auto arm(float start) {
    return upload(numbers(flat.size(), start))
        .and_then([](auto x) { return step(std::move(x), 1); })
        .and_then([](auto x) { return step(std::move(x), 2); });
}

inline auto call_naming(std::function<void()> what, storage* reads = nullptr, storage* writes = nullptr) {
    return with_context([=](execution_context& context) {
        const std::array accesses{memory_access{reads, access_mode::read}, memory_access{writes, access_mode::write}};
        context.stream().host_call({"host call", accesses}, {what});
    });
}

inline task<numbers> awaits_one(scheduling_policy& pool, float start) {
    auto first = spawn(arm(start).and_then(download), pool);
    numbers got = co_await std::move(first);
    auto second =
        spawn(upload(std::move(got)).and_then([](auto x) { return step(std::move(x), 1); }).and_then(download), pool);
    co_return co_await std::move(second);
}

}  // namespace sluice::sim
