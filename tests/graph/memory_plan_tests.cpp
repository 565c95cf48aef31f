// SPDX-License-Identifier: Apache-2.0
// Offsets of temporaries: places share bytes only if all uses of one come before all uses of the other.
#include "graph/memory_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "graph/support/graph_builder.hpp"

namespace sluice::detail::memory_plan_tests {
namespace {

using testing::graph_builder;

std::vector<planned_place> all_places(const command_graph& graph) {
    std::vector<planned_place> places;
    for (std::uint32_t i = 0; i < graph.memory.size(); ++i) places.push_back({i, graph.memory[i].bytes});
    return places;
}

graph_edge reads(std::uint32_t from, std::uint32_t memory) { return {from, memory, edge_reason::read_after_write}; }

TEST(memory_plan, of_nothing_is_empty) {
    const memory_plan plan = plan_memory({}, {});
    EXPECT_TRUE(plan.offsets.empty());
    EXPECT_EQ(plan.bytes, 0u);
}

// a -> b -> c -> d: only neighbours are in use at the same time.
TEST(memory_plan, a_chain_needs_two_places) {
    graph_builder build;
    for (std::uint32_t i = 0; i < 4; ++i) build.memory("x", 1000);
    build.kernel("k", {}, {}, {0});
    for (std::uint32_t i = 1; i < 4; ++i) build.kernel("k", {reads(i - 1, i - 1)}, {i - 1}, {i});
    const command_graph graph = build.take();
    const memory_plan plan = plan_memory(graph, all_places(graph));
    EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 1024, 0, 1024}));
    EXPECT_EQ(plan.bytes, 2048u);
}

TEST(memory_plan, branches_without_an_edge_share_nothing) {
    graph_builder build;
    for (int i = 0; i < 4; ++i) build.memory("x", 256);
    build.kernel("left", {}, {}, {0});
    build.kernel("right", {}, {}, {1});
    build.kernel("left", {reads(0, 0)}, {0}, {2});
    build.kernel("right", {reads(1, 1)}, {1}, {3});
    const command_graph graph = build.take();
    const memory_plan plan = plan_memory(graph, all_places(graph));
    EXPECT_EQ(plan.bytes, 4 * 256u);
}

TEST(memory_plan, a_place_is_free_only_after_all_its_readers) {
    graph_builder build;
    for (int i = 0; i < 2; ++i) build.memory("x", 256);
    const auto first = build.kernel("writes", {}, {}, {0});
    const auto one = build.kernel("reads", {reads(first, 0)}, {0});
    const auto other = build.kernel("reads", {reads(first, 0)}, {0});
    build.kernel("after one", {reads(one, 0)}, {}, {1});
    const command_graph behind_one = build.take();
    EXPECT_EQ(plan_memory(behind_one, all_places(behind_one)).bytes, 512u);
    command_graph behind_both = behind_one;
    behind_both.nodes.back().after.push_back(reads(other, 0));
    EXPECT_EQ(plan_memory(behind_both, all_places(behind_both)).bytes, 256u);
}

TEST(memory_plan, a_place_with_several_first_users_is_not_shared) {
    graph_builder build;
    for (int i = 0; i < 2; ++i) build.memory("x", 256);
    const auto first = build.kernel("writes", {}, {}, {0});
    build.kernel("reads early", {}, {1});
    build.kernel("reads late", {reads(first, 0)}, {1}, {1});
    const command_graph graph = build.take();
    EXPECT_EQ(plan_memory(graph, all_places(graph)).bytes, 512u);
}

// Checked for random graphs by a search of all pairs: places in use at the same time do not overlap.
TEST(memory_plan, places_overlap_only_when_all_uses_of_one_precede_the_other) {
    std::uint64_t state = 1;
    const auto draw = [&](std::uint32_t below) {
        state = state * 6364136223846793005 + 1442695040888963407;
        return static_cast<std::uint32_t>((state >> 33) % below);
    };
    std::size_t shared = 0;
    for (int round = 0; round < 200; ++round) {
        graph_builder build;
        const std::uint32_t count = 12;
        std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
        std::vector<std::vector<std::uint32_t>> users(count);
        for (std::uint32_t i = 0; i < count; ++i) build.memory("x", 1 + draw(2000));
        for (std::uint32_t i = 0; i < count; ++i) {
            std::vector<graph_edge> after;
            std::vector<std::uint32_t> read;
            for (std::uint32_t k = 0; i > 0 && k < 2; ++k) {
                const std::uint32_t from = draw(i);
                if (k == 1 && read[0] == from) continue;
                after.push_back(reads(from, from));
                read.push_back(from);
                users[from].push_back(i);
                before[i][from] = true;
                for (std::uint32_t each = 0; each < count; ++each)
                    before[i][each] = before[i][each] || before[from][each];
            }
            users[i].push_back(i);
            build.kernel("k", std::move(after), std::move(read), {i});
        }
        const command_graph graph = build.take();
        const memory_plan plan = plan_memory(graph, all_places(graph));
        const auto is_over_before = [&](std::uint32_t a, std::uint32_t b) {
            for (const std::uint32_t x : users[a]) {
                for (const std::uint32_t y : users[b]) {
                    if (!before[y][x]) return false;
                }
            }
            return true;
        };
        for (std::uint32_t a = 0; a < count; ++a) {
            EXPECT_EQ(plan.offsets[a] % 256, 0u);
            EXPECT_LE(plan.offsets[a] + graph.memory[a].bytes, plan.bytes);
            for (std::uint32_t b = 0; b < a; ++b) {
                const bool overlap = plan.offsets[a] < plan.offsets[b] + graph.memory[b].bytes &&
                                     plan.offsets[b] < plan.offsets[a] + graph.memory[a].bytes;
                shared += overlap ? 1 : 0;
                if (overlap) {
                    EXPECT_TRUE(is_over_before(a, b) || is_over_before(b, a)) << round << ": " << a << ", " << b;
                }
            }
        }
    }
    EXPECT_GT(shared, 200u);
}

}  // namespace
}  // namespace sluice::detail::memory_plan_tests
