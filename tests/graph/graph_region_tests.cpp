// SPDX-License-Identifier: Apache-2.0
// Compiled graphs that copy regions: with other inputs, at other addresses, and after updates to other regions.
#include "conformance/support/host_regions.hpp"
#include "graph/graph_operations.hpp"
#include "sluice/runtime/copy_region.hpp"

namespace sluice::conformance::graph_region_tests {
namespace {

CONFORMANCE_SUITE(graph_regions);

using numbers = std::vector<unsigned>;

const shape wide{12, 40}, matrix{20, 30};
const region to{.at = {3, 4}, .shape = {5, 8}}, from{.at = {10, 20}, .shape = {5, 8}};

numbers copied(const numbers& before, const numbers& values, const region& there = to, const region& here = from) {
    return placed(before, wide, there, taken(values, matrix, here));
}

// A region of x over one of y.
auto place(tensor<unsigned> y, tensor<unsigned> x, const region& there, const region& here) {
    return copy_to(std::move(y), there, std::move(x), here).transform([](auto whole, auto) { return whole; });
}

TEST_P(graph_regions, each_launch_copies_regions_of_its_own_inputs) {
    round_robin pool(on, 2);
    const auto fast = compile(
        on,
        [](tensor<unsigned> y, tensor<unsigned> x) {
            return place(std::move(y), std::move(x), to, from)
                .and_then([](auto whole) { return step(std::move(whole), 1); })
                .and_then(download);
        },
        device_input<unsigned>(wide), host_input<unsigned>(matrix));
    std::vector<tensor<unsigned>> all;  // at the same time, so at different addresses
    for (unsigned round = 0; round < 6; ++round) all.push_back(sync(upload(counting(480, 1000 * round), wide), pool));
    for (unsigned round = 0; round < 6; ++round) {
        numbers expected = copied(counting(480, 1000 * round), counting(600, 7 * round));
        for (unsigned& each : expected) each = 3 * each + 1;
        EXPECT_EQ(sync(fast(std::move(all[round]), counting(600, 7 * round)), pool), expected) << round;
    }
}

TEST_P(graph_regions, each_launch_copies_into_its_own_output) {
    single_stream pool(on);
    const auto fast = compile(
        on, [](shared_tensor<unsigned> x) { return copy_region(std::move(x), from); }, shared_input<unsigned>(matrix));
    std::vector<tensor<unsigned>> made;
    for (unsigned round = 0; round < 5; ++round)
        made.push_back(sync(fast(sync(share(upload(counting(600, round), matrix)), pool)), pool));
    for (unsigned round = 0; round < 5; ++round) {
        EXPECT_EQ(made[round].shape(), from.shape);
        EXPECT_EQ(sync(download(std::move(made[round])), pool), taken(counting(600, round), matrix, from)) << round;
    }
}

TEST_P(graph_regions, regions_are_uploaded_and_downloaded) {
    single_stream pool(on);
    const numbers values = counting(600, 5000);
    const auto owner = std::make_shared<const numbers>(values);
    const auto fast = compile(
        on,
        [=](tensor<unsigned> y) {
            return upload_to(std::move(y), to, *owner, owner, {.whole = matrix, .at = from.at})
                .and_then(
                    [](auto whole) { return download_region(std::move(whole), {.at = {2, 3}, .shape = {7, 10}}); });
        },
        device_input<unsigned>(wide));
    for (unsigned round = 0; round < 4; ++round) {
        auto [y, some] = sync(fast(sync(upload(counting(480, round), wide), pool)), pool);
        const numbers expected = copied(counting(480, round), values);
        EXPECT_EQ(some, taken(expected, wide, {{2, 3}, {7, 10}})) << round;
        EXPECT_EQ(sync(download(std::move(y)), pool), expected) << round;
    }
}

// Boxes are one command for each plane.
TEST_P(graph_regions, boxes_are_copied) {
    single_stream pool(on);
    const shape cube{6, 7, 8};
    const region there{.at = {1, 2, 3}, .shape = {3, 4, 5}}, here{.at = {3, 0, 1}, .shape = {3, 4, 5}};
    const auto fast = compile(
        on,
        [=](tensor<unsigned> y, tensor<unsigned> x) {
            return copy_to(std::move(y), there, std::move(x), here)
                .transform([](auto whole, auto) { return whole; })
                .and_then(download);
        },
        device_input<unsigned>(cube), device_input<unsigned>(cube));
    for (unsigned round = 0; round < 4; ++round) {
        auto y = sync(upload(counting(336, round), cube), pool),
             x = sync(upload(counting(336, 900 + round), cube), pool);
        const numbers expected =
            placed(counting(336, round), cube, there, taken(counting(336, 900 + round), cube, here));
        EXPECT_EQ(sync(fast(std::move(y), std::move(x)), pool), expected) << round;
    }
}

TEST_P(graph_regions, an_update_changes_the_regions) {
    single_stream pool(on);
    const numbers values = counting(600, 3000);
    const shared_tensor<unsigned> source = sync(share(upload(values, matrix)), pool);
    const auto moving = [source](const region& there, const region& here) {
        return any([=](tensor<unsigned> y) { return copy_to(std::move(y), there, source, here).and_then(download); });
    };
    const auto fast = compile(on, moving(to, from), device_input<unsigned>(wide));
    const auto expect = [&](const region& there, const region& here) {
        for (unsigned round = 0; round < 2; ++round) {
            const numbers before = counting(480, round);
            EXPECT_EQ(sync(fast(sync(upload(before, wide), pool)), pool), copied(before, values, there, here))
                << to_string(there);
        }
    };
    expect(to, from);
    const region other_place{{0, 32}, {5, 8}}, other_source{{15, 0}, {5, 8}};
    EXPECT_EQ(fast.update(moving(other_place, other_source)), graph_change::parameters);
    expect(other_place, other_source);
    const region tall{{1, 1}, {11, 3}}, tall_source{{9, 27}, {11, 3}};
    EXPECT_EQ(fast.update(moving(tall, tall_source)), graph_change::parameters);
    expect(tall, tall_source);
    const region one_row{{2, 5}, {1, 30}}, one_row_source{{7, 0}, {1, 30}};  // one row: another kind of node on a GPU
    fast.update(moving(one_row, one_row_source));
    expect(one_row, one_row_source);
    fast.update(moving(to, from));
    expect(to, from);
}

TEST_P(graph_regions, a_copy_to_a_region_is_disabled_by_name) {
    single_stream pool(on);
    const shared_tensor<unsigned> source = sync(share(upload(counting(600, 3000), matrix)), pool);
    const auto fast = compile(
        on,
        [=](tensor<unsigned> y) { return named("place", copy_to(std::move(y), to, source, from)).and_then(download); },
        host_input<unsigned>(wide));
    const numbers before = counting(480);
    const numbers after = copied(before, counting(600, 3000));
    EXPECT_EQ(sync(fast(before), pool), after);
    fast.disable("place");
    EXPECT_EQ(sync(fast(before), pool), before);
    fast.enable("place");
    EXPECT_EQ(sync(fast(before), pool), after);
}

}  // namespace
}  // namespace sluice::conformance::graph_region_tests
