// SPDX-License-Identifier: Apache-2.0
// Data that compiled graphs copy in and out: copies of every size, inputs in pieces, results left in pinned memory.

#include "conformance/expect_refused.hpp"
#include "graph/graph_operations.hpp"

namespace sluice::conformance::graph_copy_tests {
namespace {

CONFORMANCE_SUITE(graph_copies);

// On a GPU, small copies and copies at unaligned addresses take other paths than large ones.
TEST_P(graph_copies, copies_of_every_size_are_exact) {
    single_stream pool(on);
    for (const std::size_t size : {1u, 15u, 16u, 17u, 4095u, 524'288u, 524'289u, 1'000'003u}) {
        SCOPED_TRACE(size);
        const auto fast = compile(
            on, [](tensor<unsigned char> x) { return download(std::move(x)); },
            host_input<unsigned char>({size + 3, 1}));
        const auto odd = compile(
            on, [](std::vector<tensor<unsigned char>> x) { return download(std::move(x)); },
            host_input_in_pieces<unsigned char>({size + 3, 1}, {3, size}));
        for (unsigned round = 0; round < 3; ++round) {
            host_buffer<unsigned char> filled(pool.next(), size + 3);
            for (unsigned i = 0; unsigned char& each : filled.write())
                each = static_cast<unsigned char>(++i * 7 + round);
            const std::vector<unsigned char> expected(filled.read().begin(), filled.read().end());
            const shared input(std::move(filled));
            EXPECT_TRUE(sync(fast(input), pool) == expected);
            EXPECT_TRUE(sync(odd(input), pool) == expected);
        }
    }
}

TEST_P(graph_copies, an_input_is_uploaded_in_pieces) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](std::vector<tensor<unsigned>> x) {
            EXPECT_EQ(x.size(), 3u);
            EXPECT_EQ(x[1].shape(), (shape{1, 10}));
            return zip(two_steps(std::move(x[0])), two_steps(std::move(x[1])), two_steps(std::move(x[2])))
                .and_then([](auto a, auto b, auto c) {
                    std::vector<tensor<unsigned>> all;
                    all.push_back(std::move(a));
                    all.push_back(std::move(b));
                    all.push_back(std::move(c));
                    return download(std::move(all));
                });
        },
        host_input_in_pieces<unsigned>({10, 10}, {6, 1, 3}));
    for (unsigned round = 0; round < 5; ++round)
        EXPECT_EQ(sync(fast(counting(100, round)), pool), after_two(counting(100, round)));
    const auto make = [](const shape& of, std::vector<std::size_t> rows) { host_input_in_pieces<int>(of, rows); };
    expect_refused(errc::shape_mismatch, {"6 + 3 rows", "[10, 10]"}, [&] { make({10, 10}, {6, 3}); });
    const std::size_t wrapping = std::size_t{0} - 8;
    expect_refused(errc::shape_mismatch, {"[8, 1]"}, [&] { make({8, 1}, {wrapping, 16}); });
    expect_refused(errc::shape_mismatch, {"[8, 1]"}, [&] { make({8, 1}, {}); });
    expect_refused(errc::invalid_argument, {"at least one row"}, [&] { make({10, 10}, {6, 0, 4}); });
    expect_refused(errc::shape_mismatch, {"[10]"}, [&] { make({10}, {10}); });
}

TEST_P(graph_copies, results_in_pinned_memory_are_not_overwritten_by_later_launches) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on, [](tensor<unsigned> x) { return two_steps(std::move(x)).and_then(download_buffer); },
        host_input<unsigned>({100}));
    std::vector<host_buffer<unsigned>> kept;
    for (unsigned round = 0; round < 5; ++round) kept.push_back(sync(fast(counting(100, round)), pool));
    for (unsigned round = 0; round < 5; ++round)
        EXPECT_TRUE(std::ranges::equal(kept[round].read(), after_two(counting(100, round))));
    const auto pair = compile(
        on, [](std::vector<tensor<unsigned>> x) { return download_buffer(std::move(x)); },
        host_input_in_pieces<unsigned>({4, 1}, {3, 1}));
    for (unsigned round = 0; round < 3; ++round)
        EXPECT_TRUE(std::ranges::equal(sync(pair(counting(4, round)), pool).read(), counting(4, round)));
}

}  // namespace
}  // namespace sluice::conformance::graph_copy_tests
