// SPDX-License-Identifier: Apache-2.0
// Updates of graphs that kernels launch, while other graphs hold their handles.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "graph/support/launching_kernels.hpp"
#include "support/at_each_change.hpp"

namespace sluice::conformance::launchable_update_tests {
namespace {

CONFORMANCE_SUITE(launchable_update);

using changing = std::function<any_operation<tensor<int>>(tensor<int>)>;

struct double_each {
    int unused;
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) *element *= 2;
    }
};

changing plus(int by) {
    return [by](tensor<int> x) -> any_operation<tensor<int>> { return adding(by)(std::move(x)); };
}
changing twice() {
    return [](tensor<int> x) -> any_operation<tensor<int>> {
        auto range = each_of(x);
        return launch(double_each{0}, range, std::move(x));
    };
}
changing plus_twice(int by) {
    return [by](tensor<int> x) -> any_operation<tensor<int>> { return adding(by)(std::move(x)).and_then(adding(by)); };
}
template <typename Graph>
changing launches(const Graph& graph) {
    return [graph](tensor<int> x) -> any_operation<tensor<int>> { return launching(graph, how::tail, std::move(x)); };
}

struct add_one_in_clusters {
    SLUICE_KERNEL void operator()(const block_cluster& cluster, disjoint_view<int> x) const {
        cluster.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (int* const element = x.at(t.flat())) ++*element;
            });
        });
    }
};
changing in_clusters_of(unsigned size) {
    return [size](tensor<int> x) -> any_operation<tensor<int>> {
        return launch(add_one_in_clusters{}, blocks(4, 2).in_clusters_of(size), std::move(x));
    };
}

TEST_P(launchable_update, to_another_cluster_is_refused_and_changes_nothing) {
    if (on.properties().max_blocks_per_cluster < 4) GTEST_SKIP() << "a GPU without clusters";
    round_robin pool(on, 2);
    const auto graph = launchable(on, in_clusters_of(2), device_input<int>({8}));
    const auto run = [&] {
        return sluice::sync(upload(std::vector<int>(8, 5)).and_then(graph).and_then(download), pool);
    };
    for (int i = 0; i < 2; ++i) {
        expect_refused(errc::graph_refused, {"clusters of 4 x 1 x 1", "clusters of 2 x 1 x 1"},
                       [&] { static_cast<void>(graph.update(in_clusters_of(4))); });
        EXPECT_EQ(run(), std::vector<int>(8, 6));
    }
    EXPECT_NE(graph.update(in_clusters_of(2)), graph_change::instantiated);
    EXPECT_EQ(run(), std::vector<int>(8, 6));
}

TEST_P(launchable_update, graphs_that_launch_it_run_the_new_operation) {
    round_robin pool(on, 2);
    const auto graph = launchable(on, plus(1), device_input<int>({2}));
    const auto tick = launched_once(on, graph, how::fire_and_forget);
    set_state(graph, {0, 10}, pool);
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(graph.update(plus(1)), graph_change::none);
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), (std::vector<int>{2, 12}));
    for (int by = 2; by < 6; ++by) {
        set_state(graph, {0, 10}, pool);
        const graph_change change = graph.update(plus(by));
        EXPECT_NE(change, graph_change::none);
        EXPECT_NE(change, graph_change::instantiated);
        EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(graph, pool), (std::vector<int>{by, 10 + by}));
        EXPECT_EQ(sluice::sync(upload(std::vector<int>{0, 0}).and_then(graph).and_then(download), pool),
                  (std::vector<int>{by, by}));  // launched by the host
    }
    static_cast<void>(graph.update(twice()));  // another kernel
    set_state(graph, {3, 10}, pool);
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), (std::vector<int>{6, 20}));
}

TEST_P(launchable_update, launches_in_flight_run_the_old_operation) {
    round_robin pool(on, 4);
    const auto graph = launchable(on, plus(1), device_input<int>({1}));
    const auto tick = launched_once(on, graph, how::tail);
    set_state(graph, {0}, pool);
    std::vector<decltype(spawn(tick(), pool))> running;
    for (int i = 0; i < 20; ++i) running.push_back(spawn(tick(), pool));
    static_cast<void>(graph.update(plus(100)));
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{20});
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{120});
    for (auto& each : running) EXPECT_EQ(std::move(each).get(), std::vector<int>{1});
}

TEST_P(launchable_update, updates_and_launches_by_several_threads_do_not_mix) {
    round_robin pool(on, 8);
    const auto graph = launchable(on, plus(1), device_input<int>({1000}));
    set_state(graph, std::vector<int>(1000), pool);
    std::atomic<int> accepted{0};
    const auto launch_many = [&] {
        const auto tick = launched_once(on, graph, how::tail);
        for (int i = 0; i < 100; ++i) accepted += sluice::sync(tick(), pool)[0];
    };
    std::atomic<bool> is_over{false};
    std::thread updating([&] {
        int i = 0;
        test_support::at_each_change(accepted, is_over,
                                     [&] { static_cast<void>(graph.update(plus(i++ % 2 == 0 ? 1000 : 1))); });
    });
    std::thread second(launch_many);
    launch_many();
    second.join();
    is_over = true;
    updating.join();
    const std::vector<int> now = state_of(graph, pool);
    EXPECT_EQ(accepted, 200);
    EXPECT_EQ(now[0] / 1000 + now[0] % 1000, 200);
    EXPECT_EQ(now, std::vector<int>(1000, now[0]));
}

TEST_P(launchable_update, a_graph_that_another_launchable_graph_launches_is_updated) {
    round_robin pool(on, 2);
    const auto leaf = launchable(on, plus(1), device_input<int>({1}));
    const auto middle = launchable(on, launches(leaf), device_input<int>({1}));
    const auto tick = launched_once(on, middle, how::tail);
    set_state(leaf, {0}, pool);
    set_state(middle, {0}, pool);
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    static_cast<void>(leaf.update(plus(10)));
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(leaf, pool), std::vector<int>{11});
    static_cast<void>(middle.update([=](tensor<int> x) -> any_operation<tensor<int>> {
        return launching(leaf, how::fire_and_forget, std::move(x));
    }));
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(leaf, pool), std::vector<int>{21});
    EXPECT_EQ(state_of(middle, pool), std::vector<int>{3});
}

TEST_P(launchable_update, a_new_structure_is_refused_and_changes_nothing) {
    round_robin pool(on, 2);
    const auto graph = launchable(on, plus(1), device_input<int>({1}));
    const auto tick = launched_once(on, graph, how::tail);
    set_state(graph, {0}, pool);
    expect_refused(errc::graph_refused, {"handle", "node 1", "add_to_each", "is new"},
                   [&] { static_cast<void>(graph.update(plus_twice(5))); });
    expect_refused(errc::shape_mismatch, {"[1]", "[2]"}, [&] {
        static_cast<void>(graph.update([](tensor<int>) -> any_operation<tensor<int>> { return zeros<int>({2}); }));
    });
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{1});
    static_cast<void>(graph.update(plus(2)));
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{3});
}

TEST_P(launchable_update, graphs_cannot_launch_each_other) {
    round_robin pool(on, 2);
    const auto one = launchable(on, plus(1), device_input<int>({1}));
    const auto other = launchable(on, plus(1), device_input<int>({1}));
    const auto first = launchable(on, launches(one), device_input<int>({1}));
    const auto second = launchable(on, launches(first), device_input<int>({1}));
    for (const auto& [graph, next] : {std::pair(first, second), std::pair(first, first), std::pair(one, first)}) {
        expect_refused(errc::graph_refused, {"graphs that launch"},
                       [&] { static_cast<void>(graph.update(launches(next))); });
    }
    expect_refused(errc::graph_refused, {"did not launch when it was created"},
                   [&] { static_cast<void>(first.update(launches(other))); });
    set_state(one, {0}, pool);
    set_state(first, {0}, pool);
    set_state(second, {0}, pool);
    EXPECT_EQ(sync(launched_once(on, second, how::tail)(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(one, pool), std::vector<int>{1});
}

TEST_P(launchable_update, an_update_waits_for_what_it_captures_and_drops_what_it_captured) {
    round_robin pool(on, 2);
    const auto reads = [](shared_tensor<int> weights) -> changing {
        return [=](tensor<int>) -> any_operation<tensor<int>> { return copy(weights); };
    };
    auto old = std::make_shared<const std::vector<int>>(std::vector<int>{7});
    const std::weak_ptr<const std::vector<int>> watched = old;
    const auto graph =
        launchable(on, changing([kept = old, inner = reads(sluice::sync(share(upload(*old)), pool))](tensor<int> x) {
                       return inner(std::move(x));
                   }),
                   device_input<int>({1}));
    old.reset();
    const auto tick = launched_once(on, graph, how::tail);
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{7});
    EXPECT_FALSE(watched.expired());
    static_cast<void>(graph.update(reads(sluice::sync(share(upload(std::vector<int>{8})), pool))));
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
    EXPECT_EQ(state_of(graph, pool), std::vector<int>{8});
}

// A tensor that was joined is written by the commands on its parts. The update waits for those, without the graph's
// lock.
TEST_P(launchable_update, an_update_waits_for_writes_of_the_parts_of_what_it_captures) {
    round_robin pool(on, 2);
    const stream home = pool.next();
    const auto reads = [](shared_tensor<int> weights) -> changing {
        return [=](tensor<int>) -> any_operation<tensor<int>> { return copy(weights); };
    };
    const auto filled = [&](int with) { return shared_tensor<int>(sluice::sync(full<int>({128}, with), pool)); };
    const auto graph = launchable(on, reads(filled(7)), device_input<int>({128}));
    auto [low, high] = split<2>(sluice::sync(full<int>({128}, 7), pool));
    std::atomic<bool> gate{false};
    home.host_call({"gate", {}}, {[&] {
                       while (!gate) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                   }});
    tensor<int> written = submit_to(home, adding(1)(std::move(high)));
    std::jthread opens([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        gate = true;
    });
    static_cast<void>(graph.update(reads(shared_tensor<int>(join(std::move(low), std::move(written))))));
    EXPECT_TRUE(gate);
    EXPECT_EQ(sync(launched_once(on, graph, how::tail)(), pool), std::vector<int>{1});
    std::vector<int> expected(64, 7);
    expected.resize(128, 8);
    EXPECT_EQ(state_of(graph, pool), expected);
}

TEST_P(launchable_update, each_command_of_it_is_waited_for_where_that_is_asked_for) {
    runtime_options all = GetParam().options;
    all.blocks_each_command = true;
    runtime blocking(all);
    device& there = blocking.find(GetParam().device);
    constexpr std::size_t size = std::size_t{1} << 22;
    round_robin pool(there, 1);
    const stream home = pool.next();
    const auto graph = launchable(there, plus(1), device_input<int>({size}));
    for (int i = 0; i < 5; ++i) {
        tensor<int> x = submit_to(home, full<int>({size}, i));
        submit_to(home, graph.set(std::move(x)));
        ASSERT_EQ(home.passed(), home.issued()) << "set";
        tensor<int> made = submit_to(home, graph(submit_to(home, full<int>({size}, i))));
        ASSERT_EQ(home.passed(), home.issued()) << "launch";
        made = submit_to(home, graph.get());
        ASSERT_EQ(home.passed(), home.issued()) << "get";
    }
}

}  // namespace
}  // namespace sluice::conformance::launchable_update_tests
