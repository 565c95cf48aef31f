// SPDX-License-Identifier: Apache-2.0
// What a program for host threads says when an update needs other nodes.
#include <gtest/gtest.h>

#include "runtime/graph_replay.hpp"

namespace sluice::detail::graph_difference_tests {
namespace {

command_graph graph_of(std::vector<graph_node> nodes) {
    command_graph made;
    made.nodes = std::move(nodes);
    return made;
}
graph_node fill(std::string operation = {}) {
    graph_node made{};
    made.what = fill_command{};
    made.name = "zeros";
    made.operation = std::move(operation);
    return made;
}
graph_node copy() {
    graph_node made{};
    made.what = copy_command{};
    made.name = "download";
    return made;
}

graph_node kernel(launch_extent cluster, bool cooperative = false) {
    graph_node made{};
    launch_command command;
    command.cluster = cluster;
    command.cooperative = cooperative;
    made.what = command;
    made.name = "sums";
    return made;
}
graph_node loop(command_graph body) {
    graph_node made{};
    conditional_command part{};
    part.body = std::make_shared<command_graph>(std::move(body));
    made.what = std::move(part);
    made.name = "repeat";
    return made;
}

// What the program says after an update from one graph to the other.
std::string refusal(command_graph from, command_graph to, graph_change expected) {
    replay_program program(std::move(from));
    program.update(std::move(to));
    EXPECT_EQ(program.flush(), expected);
    return program.refusal();
}

}  // namespace

TEST(graph_differences, nothing_is_said_where_nothing_was_refused) {
    EXPECT_EQ(refusal(graph_of({fill()}), graph_of({fill()}), graph_change::none), "");
}

TEST(graph_differences, a_new_node_is_named) {
    EXPECT_EQ(refusal(graph_of({fill()}), graph_of({fill(), fill("layer 1")}), graph_change::instantiated),
              "the graph has 2 nodes and had 1; node 1, 'layer 1' (zeros), is new");
}

TEST(graph_differences, a_node_that_is_gone_is_named) {
    EXPECT_EQ(refusal(graph_of({fill(), copy()}), graph_of({fill()}), graph_change::instantiated),
              "the graph has 1 nodes and had 2; node 1, 'download', is gone");
}

TEST(graph_differences, another_kind_of_node_is_named) {
    EXPECT_EQ(refusal(graph_of({fill()}), graph_of({copy()}), graph_change::instantiated),
              "node 0, 'download', is a copy and was a fill (it was 'zeros')");
}

TEST(graph_differences, a_node_with_other_edges_is_named) {
    graph_node later = fill("second");
    later.after.push_back({});
    EXPECT_EQ(refusal(graph_of({copy(), fill("second")}), graph_of({copy(), later}), graph_change::instantiated),
              "node 1, 'second' (zeros), comes after other nodes than before (it was 'second' (zeros))");
}

TEST(graph_differences, another_cluster_is_named) {
    EXPECT_EQ(
        refusal(graph_of({fill(), kernel({2, 2})}), graph_of({fill(), kernel({4})}), graph_change::instantiated),
        "node 1, 'sums', is an ordinary launch in clusters of 4 x 1 x 1 and was an ordinary launch in clusters of "
        "2 x 2 x 1");
    EXPECT_EQ(refusal(graph_of({kernel({4})}), graph_of({kernel({4})}), graph_change::none), "");
}

TEST(graph_differences, a_launch_that_becomes_cooperative_is_named) {
    EXPECT_EQ(refusal(graph_of({kernel({})}), graph_of({kernel({}, true)}), graph_change::instantiated),
              "node 0, 'sums', is a cooperative launch and was an ordinary launch");
}

TEST(graph_differences, another_cluster_inside_a_loop_is_named) {
    EXPECT_EQ(refusal(graph_of({loop(graph_of({kernel({2})}))}), graph_of({loop(graph_of({kernel({})}))}),
                      graph_change::instantiated),
              "node 0, 'sums', is an ordinary launch and was an ordinary launch in clusters of 2 x 1 x 1");
}

TEST(graph_differences, rows_of_a_copy_are_compared) {
    const auto rows = [](std::size_t bytes, const copied_rows& of) {
        graph_node made = copy();
        std::get<copy_command>(made.what).bytes = bytes;
        std::get<copy_command>(made.what).rows = of;
        return made;
    };
    const auto change = [&](const graph_node& before, const graph_node& after) {
        replay_program program(graph_of({before}));
        program.update(graph_of({after}));
        return program.flush();
    };
    const graph_node before = rows(0, {4, 64, 32});
    EXPECT_EQ(change(before, rows(0, {4, 64, 32})), graph_change::none);
    for (const copied_rows& other : {copied_rows{5, 64, 32}, copied_rows{4, 65, 32}, copied_rows{4, 64, 33}})
        EXPECT_EQ(change(before, rows(0, other)), graph_change::parameters);
    EXPECT_EQ(change(rows(0, {1, 64, 32}), rows(0, {1, 0, 0})), graph_change::none);  // one row needs no pitch
}

}  // namespace sluice::detail::graph_difference_tests
