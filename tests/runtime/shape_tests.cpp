// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/shape.hpp"

#include <gtest/gtest.h>

#include "sluice/base/error.hpp"

namespace sluice {

TEST(shape, of_no_dimensions_has_one_element) {
    EXPECT_EQ(shape{}.rank(), 0u);
    EXPECT_EQ(shape{}.size(), 1u);
    EXPECT_EQ(shape{}.rows(), 1u);
    EXPECT_EQ(shape{}.columns(), 1u);
    EXPECT_EQ(to_string(shape{}), "[]");
}

TEST(shape, multiplies_its_extents) {
    const shape of{2, 3, 4, 5};
    EXPECT_EQ(of.rank(), 4u);
    EXPECT_EQ(of.size(), 120u);
    EXPECT_EQ(of[0], 2u);
    EXPECT_EQ(of[3], 5u);
    EXPECT_EQ(to_string(of), "[2, 3, 4, 5]");
}

TEST(shape, as_a_matrix_has_its_last_dimension_as_columns) {
    EXPECT_EQ((shape{2, 3, 4}.rows()), 6u);
    EXPECT_EQ((shape{2, 3, 4}.columns()), 4u);
    EXPECT_EQ(shape{7}.rows(), 1u);
    EXPECT_EQ(shape{7}.columns(), 7u);
    EXPECT_EQ((shape{5, 0}.rows()), 5u);
    EXPECT_EQ((shape{0, 5}.rows()), 0u);
}

TEST(shape, with_a_zero_extent_is_empty_whatever_the_others_are) {
    EXPECT_EQ((shape{0, ~std::size_t{0}, 2}.size()), 0u);
    EXPECT_EQ((shape{~std::size_t{0}, 2, 0}.size()), 0u);
}

TEST(shape, compares_its_extents_and_not_its_size) {
    EXPECT_EQ((shape{2, 3}), (shape{2, 3}));
    EXPECT_NE((shape{2, 3}), (shape{3, 2}));
    EXPECT_NE((shape{6}), (shape{1, 6}));
    EXPECT_NE(shape{}, shape{1});
}

TEST(shape, of_more_than_four_dimensions_is_refused) {
    try {
        const shape refused{1, 2, 3, 4, 5};
        FAIL() << "nothing was thrown";
    } catch (const error& refusal) {
        EXPECT_EQ(refusal.code(), errc::shape_mismatch);
        EXPECT_STREQ(refusal.what(), "a shape has at most 4 dimensions, not 5");
    }
}

TEST(shape, whose_size_overflows_is_refused) {
    EXPECT_THROW((shape{std::size_t{1} << 32, std::size_t{1} << 32}), error);
    EXPECT_THROW((shape{~std::size_t{0}, 2}), error);
    EXPECT_EQ((shape{std::size_t{1} << 32, std::size_t{1} << 31}.size()), std::size_t{1} << 63);
}

}  // namespace sluice
