// SPDX-License-Identifier: Apache-2.0
// Graphs that launch graphs, replayed by host threads: in which order they run, and what is refused.

#include <gtest/gtest.h>

#include "runtime/launched_graphs.hpp"
#include "sluice/runtime/graph_launcher.hpp"
#include "sluice/sluice.hpp"

namespace sluice::detail::launched_graphs_tests {
namespace {

class launched_graphs : public testing::Test {
protected:
    // A graph that appends its name to `ran` and then calls `then`.
    const launch_target& graph(std::string name, std::function<void()> then = {}) {
        command_graph made;
        graph_node& node = made.nodes.emplace_back();
        node.name = "say";
        node.what = host_command{[this, name = std::move(name), then = std::move(then)] {
            ran += name + " ";
            if (then) then();
        }};
        made.is_for_kernels = true;
        lists.push_back(std::make_unique<replay_list>(replay_list{std::move(made), {}, true}));
        return *targets.emplace_back(std::make_unique<launch_target>(launch_target{lists.back().get()}));
    }
    // The same, but kernels cannot launch it.
    const launch_target& host_graph(std::string name, std::function<void()> then) {
        const launch_target& made = graph(std::move(name), std::move(then));
        lists.back()->graph.is_for_kernels = false;
        return made;
    }
    std::exception_ptr run(const launch_target& graph) {
        return run_with_launched_graphs(*graph.now, {device_kind::cpu, nullptr, nullptr}, {});
    }
    static void launch_concurrently(const launch_target& graph) {
        EXPECT_TRUE(launch_while_replaying(&graph, launch_order::fire_and_forget));
    }
    static void launch_after(const launch_target& graph) {
        EXPECT_TRUE(launch_while_replaying(&graph, launch_order::tail));
    }

    std::string ran;
    std::vector<std::unique_ptr<replay_list>> lists;
    std::vector<std::unique_ptr<launch_target>> targets;
};

TEST_F(launched_graphs, run_fire_and_forget_before_tail_launches) {
    const auto &a = graph("a"), &b = graph("b"), &c = graph("c");
    EXPECT_FALSE(run(graph("first", [&] {
        launch_after(a);
        launch_after(b);
        launch_concurrently(c);
    })));
    EXPECT_EQ(ran, "first c a b ");
}

TEST_F(launched_graphs, tail_launches_of_a_tail_come_before_the_waiting_ones) {
    const auto &last = graph("last"), &inner = graph("inner");
    const auto& outer = graph("outer", [&] { launch_after(inner); });
    EXPECT_FALSE(run(graph("first", [&] {
        launch_after(outer);
        launch_after(last);
    })));
    EXPECT_EQ(ran, "first outer inner last ");
}

TEST_F(launched_graphs, siblings_do_not_delay_their_launcher) {
    const auto &sibling = graph("sibling"), &tail = graph("tail");
    EXPECT_FALSE(run(host_graph("first", [&] {
        EXPECT_TRUE(launch_while_replaying(&sibling, launch_order::sibling));
        launch_after(tail);
    })));
    EXPECT_EQ(ran, "first tail sibling ");
}

TEST_F(launched_graphs, have_no_siblings_of_their_own) {
    const auto& never = graph("never");
    EXPECT_FALSE(run(host_graph("first", [&] {
        launch_concurrently(
            graph("inner", [&] { EXPECT_FALSE(launch_while_replaying(&never, launch_order::sibling)); }));
    })));
    EXPECT_EQ(ran, "first inner ");
}

TEST_F(launched_graphs, run_what_their_handle_refers_to_now) {
    launch_target changing = graph("old");
    const auto& first = graph("first", [&] { launch_after(changing); });
    EXPECT_FALSE(run(first));
    changing = graph("new");
    EXPECT_FALSE(run(first));
    EXPECT_EQ(ran, "first old first new ");
}

TEST_F(launched_graphs, tail_launch_themselves_any_number_of_times) {
    int left = 100'000;
    const auto& again = graph("", [&] {
        if (--left == 0) return;
        EXPECT_TRUE(launch_while_replaying(nullptr, launch_order::tail));
        EXPECT_FALSE(launch_while_replaying(nullptr, launch_order::tail));  // at most once
    });
    EXPECT_FALSE(run(again));
    EXPECT_EQ(left, 0);
}

TEST_F(launched_graphs, that_have_not_completed_are_not_launched) {
    const auto& child = graph("child");
    const launch_target* first = nullptr;
    const auto& parent = graph("parent", [&] {
        launch_concurrently(child);
        EXPECT_FALSE(launch_while_replaying(&child, launch_order::tail));
        EXPECT_FALSE(launch_while_replaying(first, launch_order::tail));  // itself, by its handle
    });
    first = &parent;
    EXPECT_FALSE(run(parent));
    EXPECT_FALSE(run(parent));  // in the next run they are launched again
    EXPECT_EQ(ran, "parent child parent child ");
}

TEST_F(launched_graphs, are_limited_as_on_a_gpu) {
    std::vector<const launch_target*> all;
    for (int i = 0; i < 256; ++i) all.push_back(&graph("."));
    const auto count = [&](launch_order order) {
        int accepted = 0;
        EXPECT_FALSE(run(host_graph("", [&] {
            for (const launch_target* each : all) accepted += launch_while_replaying(each, order) ? 1 : 0;
        })));
        return accepted;
    };
    EXPECT_EQ(count(launch_order::fire_and_forget), 120);
    EXPECT_EQ(count(launch_order::sibling), 119);  // the launching graph counts as one
    EXPECT_EQ(count(launch_order::tail), 255);
}

TEST_F(launched_graphs, stop_at_a_failure) {
    const auto &bad = graph("bad", [] { throw std::runtime_error("mine"); }), &never = graph("never");
    EXPECT_TRUE(run(graph("first", [&] {
        launch_concurrently(bad);
        launch_after(never);
    })));
    EXPECT_EQ(ran, "first bad ");
    EXPECT_FALSE(launch_while_replaying(&never, launch_order::tail));  // nothing runs
}

struct go {
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher graph, disjoint_view<int> said) const {
        if (int* const element = said.at(at)) *element = graph.tail() ? 1 : 0;
    }
};

TEST(launched_graphs_on_a_cpu, pass_their_failure_on_to_the_launcher) {
    runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
    device& on = machine.default_device();
    round_robin pool(on, 2);
    const auto fails = launchable(
        on,
        [](tensor<int> x) {
            return with_context([given = std::move(x)](execution_context& context) mutable {
                const std::array accesses{memory_access{given.memory(), access_mode::write}};
                const int nothing = 0;
                context.stream().library_call(
                    {"picky", accesses}, {[](const native_stream&, const void*) { throw std::runtime_error("mine"); },
                                          &nothing, sizeof(int)});
                return std::move(given);
            });
        },
        device_input<int>({1}));
    const auto tick = compile(on, [=] {
        return zeros<int>({1})
            .and_then([=](auto said) {
                auto range = each_of(said);
                return launch(go{}, range, fails, std::move(said));
            })
            .and_then(download);
    });
    for (int i = 0; i < 2; ++i) {
        try {
            sync(tick(), pool);
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& failure) {
            EXPECT_STREQ(failure.what(), "mine");
        }
    }
}

}  // namespace
}  // namespace sluice::detail::launched_graphs_tests
