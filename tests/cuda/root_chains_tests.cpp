// SPDX-License-Identifier: Apache-2.0
// Which fills and copies at the beginning of a graph run one after the other, and that no order is lost.
#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "cuda/root_chains.hpp"

namespace sluice::cuda::root_chains_tests {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class graph {
public:
    // Adds a node after others; returns its number.
    std::uint32_t copy(const std::vector<std::uint32_t>& after = {}) {
        return add(copy_command{}, after, root_chains::kind::copy);
    }
    std::uint32_t fill(const std::vector<std::uint32_t>& after = {}) {
        return add(fill_command{}, after, root_chains::kind::fill);
    }
    std::uint32_t kernel(const std::vector<std::uint32_t>& after) {
        return add(launch_command{}, after, root_chains::kind::other);
    }

    root_chains chains() const { return {commands, kinds}; }

    command_graph commands;
    std::vector<root_chains::kind> kinds;

private:
    std::uint32_t add(graph_node::command what, const std::vector<std::uint32_t>& after, root_chains::kind what_kind) {
        graph_node made;
        made.what = std::move(what);
        for (const std::uint32_t each : after) made.after.push_back({.from = each});
        commands.nodes.push_back(std::move(made));
        kinds.push_back(what_kind);
        return static_cast<std::uint32_t>(commands.nodes.size() - 1);
    }
};

std::vector<std::uint32_t> before(const root_chains& all, std::uint32_t node) {
    std::vector<std::uint32_t> made;
    for (const graph_edge& each : all.before(node)) made.push_back(each.from);
    return made;
}

// For each pair of nodes, whether the second one comes after the first one.
template <typename Before>
std::vector<std::vector<bool>> order_of(std::size_t nodes, Before&& edges) {
    std::vector<std::vector<bool>> after(nodes, std::vector<bool>(nodes));
    for (std::uint32_t node = 0; node < nodes; ++node) {
        for (const std::uint32_t each : edges(node)) {
            after[each][node] = true;
            for (std::size_t i = 0; i < nodes; ++i) after[i][node] = after[i][node] || after[i][each];
        }
    }
    return after;
}

TEST(root_chains, of_a_network_leave_each_kernel_one_predecessor) {
    graph all;
    const auto upload = all.copy(), hidden = all.fill(), output = all.fill();
    const auto product = all.kernel({upload, hidden});
    const auto sum = all.kernel({output, product});
    const root_chains chains = all.chains();
    EXPECT_THAT(before(chains, upload), IsEmpty());
    EXPECT_THAT(chains.makes(output), ElementsAre(hidden, output));
    EXPECT_TRUE(chains.is_made_elsewhere(hidden));
    EXPECT_FALSE(chains.is_made_elsewhere(output));
    EXPECT_THAT(before(chains, output), ElementsAre(upload));
    EXPECT_THAT(before(chains, product), ElementsAre(output));
    EXPECT_THAT(before(chains, sum), ElementsAre(product));
    EXPECT_FALSE(chains.may_work_first(upload));  // nothing to wait for
    EXPECT_TRUE(chains.may_work_first(output));
}

TEST(root_chains, of_copies_run_one_after_the_other) {
    graph all;
    const auto first = all.copy(), cleared = all.fill(), second = all.copy();
    const auto sum = all.kernel({first, cleared, second});
    const root_chains chains = all.chains();
    EXPECT_THAT(before(chains, cleared), ElementsAre(first));
    EXPECT_THAT(before(chains, second), ElementsAre(cleared));
    EXPECT_THAT(before(chains, sum), ElementsAre(second));
    EXPECT_THAT(chains.makes(cleared), IsEmpty());
}

TEST(root_chains, one_kernel_makes_eight_fills_and_the_others_follow) {
    graph all;
    std::vector<std::uint32_t> fills;
    for (int i = 0; i < 10; ++i) fills.push_back(all.fill());
    const auto sum = all.kernel(fills);
    const root_chains chains = all.chains();
    EXPECT_THAT(chains.makes(7), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    EXPECT_THAT(before(chains, 8), ElementsAre(7));
    EXPECT_THAT(before(chains, 9), ElementsAre(8));
    EXPECT_THAT(before(chains, sum), ElementsAre(9));
}

TEST(root_chains, leave_independent_pipelines_apart) {
    graph all;
    const auto first = all.fill(), second = all.fill();
    const auto a = all.kernel({first}), b = all.kernel({second});
    const auto joined = all.kernel({a, b});
    const root_chains chains = all.chains();
    for (const auto node : {first, second}) EXPECT_THAT(before(chains, node), IsEmpty()) << node;
    EXPECT_THAT(before(chains, a), ElementsAre(first));
    EXPECT_THAT(before(chains, b), ElementsAre(second));
    EXPECT_THAT(before(chains, joined), ElementsAre(a, b));
}

TEST(root_chains, keep_the_edges_of_a_root_that_another_branch_needs_too) {
    graph all;
    const auto first = all.fill(), second = all.fill();
    const auto a = all.kernel({first, second}), b = all.kernel({second});
    const root_chains chains = all.chains();
    EXPECT_THAT(before(chains, second), IsEmpty());
    EXPECT_THAT(before(chains, a), ElementsAre(first, second));
    EXPECT_THAT(before(chains, b), ElementsAre(second));
}

TEST(root_chains, have_no_fill_with_a_predecessor_and_none_that_a_copy_engine_makes) {
    graph all;
    const auto first = all.fill(), engine = all.fill();
    all.kinds[engine] = root_chains::kind::other;
    const auto a = all.kernel({first, engine});
    const auto later = all.fill({a});
    const auto b = all.kernel({a, later});
    const root_chains chains = all.chains();
    EXPECT_THAT(before(chains, engine), IsEmpty());
    EXPECT_THAT(before(chains, a), ElementsAre(first, engine));
    EXPECT_THAT(before(chains, b), ElementsAre(a, later));
    EXPECT_FALSE(chains.may_work_first(later));
}

TEST(root_chains, lose_no_order_of_random_graphs_and_make_no_circle) {
    std::mt19937 random(7);
    std::size_t chained = 0;
    for (int round = 0; round < 2000; ++round) {
        graph all;
        const std::uint32_t nodes = 2 + random() % 14;
        for (std::uint32_t i = 0; i < nodes; ++i) {
            std::vector<std::uint32_t> after;
            for (std::uint32_t each = 0; each < i; ++each)
                if (random() % 4 == 0) after.push_back(each);
            if (random() % 2 == 0) {
                const auto none_or_some = random() % 2 == 0 ? std::vector<std::uint32_t>{} : after;
                random() % 3 == 0 ? all.copy(none_or_some) : all.fill(none_or_some);
            } else {
                all.kernel(after);
            }
        }
        const root_chains chains = all.chains();
        const auto wanted = order_of(nodes, [&](std::uint32_t node) {
            std::vector<std::uint32_t> made;
            for (const graph_edge& each : all.commands.nodes[node].after) made.push_back(each.from);
            return made;
        });
        std::vector<std::uint32_t> maker(nodes);  // the node that runs each command
        std::iota(maker.begin(), maker.end(), 0u);
        for (std::uint32_t node = 0; node < nodes; ++node) {
            for (const std::uint32_t each : before(chains, node)) {
                ASSERT_LT(each, node) << "round " << round;
                ASSERT_FALSE(chains.is_made_elsewhere(each)) << "round " << round;
            }
            for (const std::uint32_t each : chains.makes(node)) maker[each] = node;
            if (chains.may_work_first(node)) {
                ++chained;
                ASSERT_FALSE(chains.is_made_elsewhere(node)) << "round " << round;
                // It works before it waits, so nothing of the graph may come before it.
                ASSERT_THAT(all.commands.nodes[node].after, IsEmpty()) << "round " << round;
            }
        }
        for (std::uint32_t node = 0; node < nodes; ++node)
            ASSERT_EQ(chains.is_made_elsewhere(node), maker[node] != node) << "round " << round;
        const auto made = order_of(nodes, [&](std::uint32_t node) { return before(chains, node); });
        for (std::uint32_t a = 0; a < nodes; ++a) {
            for (std::uint32_t b = 0; b < nodes; ++b)
                ASSERT_TRUE(!wanted[a][b] || made[maker[a]][maker[b]]) << a << " before " << b << ", round " << round;
        }
    }
    EXPECT_GT(chained, 200u);
}

}  // namespace
}  // namespace sluice::cuda::root_chains_tests
