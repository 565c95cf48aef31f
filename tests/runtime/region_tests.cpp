// SPDX-License-Identifier: Apache-2.0
// What a copy of a region becomes: which dimensions become one, and how many commands are left.
#include "sluice/runtime/region.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail::region_tests {
namespace {

// Where both sides of the copies begin; nothing is copied.
std::byte ground[1 << 16];

std::vector<copy_command> commands_of(const region_copy& made) {
    std::vector<copy_command> all;
    made.for_each(ground, ground, copy_direction::device_to_device,
                  [&](const copy_command& each) { all.push_back(each); });
    EXPECT_EQ(made.commands(), all.size());
    return all;
}
std::ptrdiff_t at(const void* address) { return static_cast<const std::byte*>(address) - ground; }

}  // namespace

TEST(region_copies, a_rectangle_is_one_command_of_rows) {
    const auto all = commands_of({{4, 16}, 4, {100, 64}, {2, 8}, {4, 16}, {}});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].bytes, 64u);
    EXPECT_EQ(all[0].rows.count, 4u);
    EXPECT_EQ(all[0].rows.source_pitch, 256u);
    EXPECT_EQ(all[0].rows.destination_pitch, 64u);
    EXPECT_EQ(at(all[0].source), static_cast<std::ptrdiff_t>((2 * 64 + 8) * 4u));
    EXPECT_EQ(at(all[0].destination), static_cast<std::ptrdiff_t>(0u));
    EXPECT_EQ(copied_bytes(all[0]), 256u);
    EXPECT_EQ(source_reach(all[0]), 3 * 256 + 64u);
    EXPECT_EQ(destination_reach(all[0]), 256u);
}

TEST(region_copies, what_lies_without_gaps_on_both_sides_is_one_row) {
    for (const region_copy& each :
         {region_copy({3, 64}, 4, {100, 64}, {5, 0}, {9, 64}, {1, 0}),
          region_copy({1, 192}, 4, {7, 300}, {3, 9}, {1, 192}, {}),
          region_copy({2, 3, 32}, 4, {4, 3, 32}, {1}, {2, 3, 32}, {}), region_copy({192}, 4, {500}, {1}, {200}, {8})}) {
        const auto all = commands_of(each);
        ASSERT_EQ(all.size(), 1u);
        EXPECT_EQ(all[0].rows.count, 1u);
        EXPECT_EQ(all[0].bytes, 768u);
    }
}

TEST(region_copies, a_box_is_one_command_for_each_plane) {
    const region_copy made({3, 4, 5}, 2, {6, 7, 8}, {1, 2, 3}, {3, 9, 5}, {0, 5, 0});
    const auto all = commands_of(made);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(made.bytes(), 120u);
    for (std::size_t plane = 0; plane < 3; ++plane) {
        EXPECT_EQ(at(all[plane].source), static_cast<std::ptrdiff_t>(2 * ((1 + plane) * 56 + 2 * 8 + 3)));
        EXPECT_EQ(at(all[plane].destination), static_cast<std::ptrdiff_t>(2 * (plane * 45 + 25)));
        EXPECT_EQ(all[plane].rows.count, 4u);
    }
    EXPECT_EQ(commands_of({{2, 3, 4, 5}, 4, {3, 4, 5, 6}, {}, {2, 3, 4, 5}, {}}).size(), 6u);
}

// All rows of a plane, and all columns: then planes follow each other as rows do.
TEST(region_copies, whole_planes_and_whole_columns_need_one_command) {
    const auto columns = commands_of({{3, 7, 5}, 4, {6, 7, 8}, {1, 0, 3}, {3, 7, 5}, {}});
    ASSERT_EQ(columns.size(), 1u);
    EXPECT_EQ(columns[0].rows.count, 21u);
    const auto planes = commands_of({{3, 4, 8}, 4, {6, 7, 8}, {1, 2, 0}, {3, 4, 8}, {}});
    ASSERT_EQ(planes.size(), 1u);
    EXPECT_EQ(planes[0].rows.count, 3u);
    EXPECT_EQ(planes[0].bytes, 128u);
}

TEST(region_copies, no_elements_are_no_command) {
    EXPECT_TRUE(commands_of({{0, 5}, 4, {6, 7}, {6, 2}, {3, 5}, {}}).empty());
    EXPECT_EQ(commands_of({shape{}, 4, shape{}, {}, shape{}, {}}).size(), 1u);  // a single number
}

TEST(regions, have_a_text) {
    EXPECT_EQ(to_string(region{.at = {2, 8}, .shape = {4, 16}}), "[4, 16] at [2, 8]");
    EXPECT_EQ(to_string(region{.at = {0, 0, 7}, .shape = {4}}), "[4] at [0, 0, 7]");
}

}  // namespace sluice::detail::region_tests
