// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels launch, and that launch others.

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "graph/support/launching_kernels.hpp"
#include "support/at_each_change.hpp"

namespace sluice::conformance::nested_launch_tests {
namespace {

CONFORMANCE_SUITE(nested_launch);

// x[0] counts runs, x[1] accepted launches of the other graph.
struct launch_and_repeat {
    how way;
    int runs;
    SLUICE_KERNEL void operator()(index_1d at, self_launcher self, graph_launcher other, disjoint_view<int> x) const {
        int* const element = x.at(at);
        if (element == nullptr || at.value() != 0) return;
        element[1] += launch_by(other, way) ? 1 : 0;
        if (++element[0] < runs) static_cast<void>(self.tail());
    }
};

auto leaf_of(device& on) { return launchable(on, adding(1), device_input<int>({3})); }

template <typename Graph>
auto launcher_of(device& on, const Graph& other, how way) {
    return launchable(on, [=](tensor<int> x) { return launching(other, way, std::move(x)); }, device_input<int>({1}));
}

TEST_P(nested_launch, a_launched_graph_launches_another) {
    round_robin pool(on, 2);
    for (const how way : {how::fire_and_forget, how::tail}) {
        SCOPED_TRACE(static_cast<int>(way));
        const auto leaf = leaf_of(on);
        const auto middle = launcher_of(on, leaf, way);
        const auto tick = launched_once(on, middle, how::tail);
        set_state(leaf, {0, 10, 20}, pool);
        set_state(middle, {0}, pool);
        for (int i = 1; i <= 20; ++i) {
            EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
            // Both graphs are part of the launch.
            EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{i, 10 + i, 20 + i}));
            EXPECT_EQ(state_of(middle, pool), std::vector<int>{i});
        }
        // Launched by the host.
        EXPECT_EQ(sluice::sync(zeros<int>({1}).and_then(middle).and_then(download), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{21, 31, 41}));
    }
}

TEST_P(nested_launch, what_could_run_twice_at_the_same_time_is_not_launched) {
    round_robin pool(on, 2);
    const auto leaf = leaf_of(on);
    set_state(leaf, {0, 0, 0}, pool);
    const auto middle = launcher_of(on, leaf, how::tail);
    set_state(middle, {0}, pool);
    for (const how way : {how::fire_and_forget, how::sibling}) {
        EXPECT_EQ(sync(launched_once(on, middle, way)(), pool), std::vector<int>{0});
    }
    EXPECT_EQ(state_of(middle, pool), std::vector<int>{0});
    const auto with_sibling = launcher_of(on, leaf, how::sibling);
    set_state(with_sibling, {0}, pool);
    EXPECT_EQ(sync(launched_once(on, with_sibling, how::tail)(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(with_sibling, pool), std::vector<int>{0});
    EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{0, 0, 0}));
}

TEST_P(nested_launch, a_graph_gives_data_to_the_one_that_it_launches) {
    round_robin pool(on, 2);
    const auto leaf = leaf_of(on);
    const auto middle = launchable(
        on,
        [=](tensor<int> x) {
            const shared_tensor<int> given(std::move(x));
            return leaf.set<0>(given).and_then([=] {
                return copy(given).and_then(
                    [=](auto y) { return launching(leaf, how::fire_and_forget, std::move(y)); });
            });
        },
        device_input<int>({3}));
    const auto tick = launched_once(on, middle, how::tail);
    for (int i = 0; i < 10; ++i) {
        set_state(middle, {i, 7, 8}, pool);
        EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{i + 1, 8, 9}));
        EXPECT_EQ(state_of(middle, pool), (std::vector<int>{i + 1, 7, 8}));
    }
}

TEST_P(nested_launch, a_graph_that_repeats_itself_launches_another_each_time) {
    round_robin pool(on, 2);
    for (const how way : {how::fire_and_forget, how::tail}) {
        SCOPED_TRACE(static_cast<int>(way));
        const auto leaf = leaf_of(on);
        const auto middle = launchable(
            on,
            [=](self_launcher self, tensor<int> x) {
                auto range = each_of(x);
                return launch(launch_and_repeat{way, 5}, range, self, leaf, std::move(x));
            },
            device_input<int>({2}));
        set_state(leaf, {0, 0, 0}, pool);
        set_state(middle, {0, 0}, pool);
        EXPECT_EQ(sync(launched_once(on, middle, how::tail)(), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(middle, pool), (std::vector<int>{5, 5}));
        EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{5, 5, 5}));
    }
}

TEST_P(nested_launch, three_graphs_launch_each_other_in_a_row) {
    round_robin pool(on, 2);
    const auto leaf = leaf_of(on);
    const auto third = launcher_of(on, leaf, how::fire_and_forget);
    const auto second = launcher_of(on, third, how::tail);
    const auto tick = launched_once(on, second, how::tail);
    set_state(leaf, {0, 0, 0}, pool);
    set_state(third, {0}, pool);
    set_state(second, {0}, pool);
    for (int i = 1; i <= 5; ++i) {
        EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{i, i, i}));
        EXPECT_EQ(state_of(third, pool), std::vector<int>{i});
        EXPECT_EQ(state_of(second, pool), std::vector<int>{i});
    }
}

TEST_P(nested_launch, graphs_are_dropped_in_any_order) {
    round_robin pool(on, 2);
    auto leaf = std::make_optional(leaf_of(on));
    auto middle = std::make_optional(launcher_of(on, *leaf, how::fire_and_forget));
    set_state(*leaf, {0, 0, 0}, pool);
    set_state(*middle, {0}, pool);
    auto tick = std::make_optional(launched_once(on, *middle, how::tail));
    EXPECT_EQ(sync((*tick)(), pool), std::vector<int>{1});
    tick.reset();  // the outer one first
    EXPECT_EQ(state_of(*leaf, pool)[0], 1);
    tick.emplace(launched_once(on, *middle, how::tail));
    middle.reset();  // then the middle one
    EXPECT_EQ(sync((*tick)(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(*leaf, pool)[0], 2);
    leaf.reset();  // then the inner one
    EXPECT_EQ(sync((*tick)(), pool), std::vector<int>{1});
    auto last = spawn((*tick)(), pool);
    tick.reset();  // all are dropped while this runs, or before
    EXPECT_EQ(std::move(last).get(), std::vector<int>{1});
}

TEST_P(nested_launch, launches_by_two_threads_are_neither_lost_nor_mixed) {
    round_robin pool(on, 8);
    constexpr std::size_t size = 2'000;
    const auto leaf = launchable(on, adding(1), device_input<int>({size}));
    const auto middle = launcher_of(on, leaf, how::fire_and_forget);
    set_state(leaf, std::vector<int>(size), pool);
    set_state(middle, {0}, pool);
    const auto through_middle = launched_once(on, middle, how::tail);
    const auto direct = launched_once(on, leaf, how::tail);
    std::atomic<int> accepted{0}, torn{0};
    std::atomic<bool> is_over{false};
    std::thread reader([&] {
        test_support::at_each_change(accepted, is_over, [&] {
            const std::vector<int> now = state_of(leaf, pool);
            torn += std::count(now.begin(), now.end(), now[0]) != static_cast<std::ptrdiff_t>(size);
        });
    });
    const auto launch_many = [&](const auto& graph) {
        for (int i = 0; i < 100; ++i) accepted += sluice::sync(graph(), pool)[0];
    };
    std::thread second([&] { launch_many(direct); });
    launch_many(through_middle);
    second.join();
    is_over = true;
    reader.join();
    EXPECT_EQ(accepted, 200);
    EXPECT_EQ(state_of(middle, pool), std::vector<int>{100});
    EXPECT_EQ(state_of(leaf, pool), std::vector<int>(size, 200));
    EXPECT_EQ(torn, 0);
}

TEST_P(nested_launch, commands_after_the_launching_kernel_cannot_use_the_states) {
    const auto leaf = leaf_of(on);
    const auto middle = launcher_of(on, leaf, how::tail);
    expect_refused(errc::graph_refused, {"launch_and_count", "copy"}, [&] {
        static_cast<void>(compile(on, [=] {
            return zeros<int>({1})
                .and_then([=](auto said) { return launching(middle, how::tail, std::move(said)); })
                .and_then([=](auto) { return leaf.get(); });
        }));
    });
    expect_refused(errc::graph_refused, {"launch_and_count", "copy"}, [&] {
        static_cast<void>(launchable(
            on,
            [=](tensor<int> x) {
                return launching(leaf, how::tail, std::move(x)).and_then([=](auto) { return leaf.get(); });
            },
            device_input<int>({3})));
    });
}

struct launch_both {
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher one, graph_launcher other, disjoint_view<int> x) const {
        int* const element = x.at(at);
        if (element != nullptr) *element = (one.tail() ? 1 : 0) + (other.tail() ? 2 : 0);
    }
};

TEST_P(nested_launch, one_kernel_launches_two_graphs_only_if_they_share_no_memory) {
    round_robin pool(on, 2);
    const auto leaf = leaf_of(on), other = leaf_of(on);
    const auto middle = launcher_of(on, leaf, how::tail);
    const pinned_tensor<int> out(on, {3});
    const auto stores = [&] {
        return launchable(on, [=](tensor<int> x) { return out.store(std::move(x)); }, device_input<int>({3}));
    };
    const auto launching_both = [this](const auto& one, const auto& two) {
        return compile(on, [=] {
            return zeros<int>({1})
                .and_then([=](auto said) {
                    auto range = each_of(said);
                    return launch(launch_both{}, range, one, two, std::move(said));
                })
                .and_then(download);
        });
    };
    for (const auto& graph : {leaf, other}) set_state(graph, {0, 0, 0}, pool);
    set_state(middle, {0}, pool);
    EXPECT_EQ(sync(launching_both(middle, other)(), pool), std::vector<int>{3});
    EXPECT_EQ(state_of(leaf, pool), (std::vector<int>{1, 1, 1}));
    EXPECT_EQ(state_of(other, pool), (std::vector<int>{1, 1, 1}));
    EXPECT_EQ(sync(launching_both(leaf, leaf)(), pool), std::vector<int>{1});  // the same graph: one launch
    expect_refused(errc::graph_refused, {"launch_both", "same memory"},
                   [&] { static_cast<void>(launching_both(middle, leaf)); });
    expect_refused(errc::graph_refused, {"launch_both", "same memory"},
                   [&] { static_cast<void>(launching_both(stores(), stores())); });
}

TEST_P(nested_launch, the_state_of_a_graph_that_is_not_launched_cannot_be_written) {
    const auto leaf = leaf_of(on);
    expect_refused(errc::graph_refused, {"captured"}, [&] {
        static_cast<void>(launchable(
            on,
            [=](tensor<int> x) {
                const shared_tensor<int> given(std::move(x));
                return leaf.set<0>(given).and_then([=] { return copy(given); });
            },
            device_input<int>({3})));
    });
}

TEST_P(nested_launch, a_graph_of_another_device_cannot_be_launched) {
    const auto elsewhere = launchable(other_device(), adding(1), device_input<int>({3}));
    expect_refused(errc::invalid_argument, {"launch_and_count", other_device().name()},
                   [&] { static_cast<void>(launched_once(on, elsewhere, how::tail)); });
}

}  // namespace
}  // namespace sluice::conformance::nested_launch_tests
