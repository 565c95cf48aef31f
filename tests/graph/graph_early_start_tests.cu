// SPDX-License-Identifier: Apache-2.0
// Kernels of compiled graphs that start before the kernel before them has ended: what is disabled among them does
// nothing, and the others still wait for one another.
#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_early_start_tests {
namespace {

CONFORMANCE_SUITE(graph_early_starts);

constexpr std::size_t size = 1000;

// Sets x late, after it has let the next kernel start.
struct set_late {
    unsigned rounds;

    SLUICE_KERNEL void operator()(index_1d at, unsigned value, disjoint_view<unsigned> x) const {
        dependency_trigger();
        unsigned* const element = x.at(at);
        if (element == nullptr) return;
        unsigned sum = *element;
        for (unsigned i = 0; i < rounds; ++i) sum = sum * 1664525u + 1013904223u;
        *element = sum == 0 && rounds == ~0u ? 0 : value;
    }
};

struct step_early {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        dependency_trigger();
        dependency_wait();
        if (unsigned* const element = x.at(at)) *element = 3 * *element + 1;
    }
};

auto early(const char* name, tensor<unsigned> x) {
    const auto all = each_of(x).early_start();
    return named(name, launch(step_early{}, all, std::move(x)));
}

}  // namespace

TEST_P(graph_early_starts, nodes_that_are_disabled_do_nothing_and_the_others_wait_for_one_another) {
    single_stream pool(on);
    const auto fast = compile(
        on,
        [rounds = slow()](tensor<unsigned> x) {
            const auto all = each_of(x);
            return named("late", launch(set_late{rounds}, all, 7u, std::move(x)))
                .and_then([](auto y) { return early("a", std::move(y)); })
                .and_then([](auto y) { return early("b", std::move(y)); })
                .and_then([](auto y) { return early("c", std::move(y)); })
                .and_then(download);
        },
        host_input<unsigned>({size}));
    const std::vector<unsigned> x(size, 10);
    const char* const names[] = {"late", "a", "b", "c"};
    // Each combination from each other one.
    for (const unsigned way : {15u, 11u, 15u, 13u, 14u, 9u, 6u, 12u, 1u, 0u, 8u, 15u, 5u, 10u, 3u, 7u, 2u, 4u, 15u}) {
        unsigned expected = 10;
        for (unsigned i = 0; i < 4; ++i) {
            const bool is_on = (way >> i & 1) != 0;
            if (is_on != fast.is_enabled(names[i])) is_on ? fast.enable(names[i]) : fast.disable(names[i]);
            if (is_on) expected = i == 0 ? 7 : 3 * expected + 1;
        }
        for (int round = 0; round < 3; ++round)
            ASSERT_EQ(sync(fast(x), pool), std::vector<unsigned>(size, expected)) << way;
    }
}

TEST_P(graph_early_starts, one_kernel_alone_may_be_disabled) {
    single_stream pool(on);
    const auto fast =
        compile(on, [](tensor<unsigned> x) { return early("only", std::move(x)); }, device_input<unsigned>({size}));
    const auto run = [&] {
        auto x = sync(upload(std::vector<unsigned>(size, 2), {size}), pool);
        return contents(sync(fast(std::move(x)), pool), pool.next());
    };
    EXPECT_EQ(run(), std::vector<unsigned>(size, 7));
    fast.disable("only");
    EXPECT_EQ(run(), std::vector<unsigned>(size, 2));
    fast.enable("only");
    EXPECT_EQ(run(), std::vector<unsigned>(size, 7));
}

}  // namespace sluice::conformance::graph_early_start_tests
