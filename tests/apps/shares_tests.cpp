// SPDX-License-Identifier: Apache-2.0
#include "sluice/distributed/shares.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace sluice::app::shares_tests {
namespace {

using ::testing::ElementsAre;

TEST(shares_of_rows, follow_each_other_and_are_whole_batches) {
    for (const std::size_t rows : {1, 2, 7, 100, 449, 450, 451}) {
        for (const std::size_t batch : {1, 7, 64, 450, 1024}) {
            for (const int size : {1, 2, 3, 4, 7, 500}) {
                std::size_t next = 0;
                for (int rank = 0; rank < size; ++rank) {
                    const row_range share = share_of_rows(rows, batch, rank, size);
                    ASSERT_EQ(share.first, next);
                    next += share.count;
                    ASSERT_TRUE(share.count % batch == 0 || next == rows);
                }
                EXPECT_EQ(next, rows);
            }
        }
    }
}

TEST(shares_of_rows, differ_by_one_batch_at_most) {
    EXPECT_EQ(share_of_rows(70, 10, 0, 3).count, 30u);
    EXPECT_EQ(share_of_rows(70, 10, 1, 3).count, 20u);
    EXPECT_EQ(share_of_rows(70, 10, 2, 3).count, 20u);
}

TEST(shares_of_rows, do_not_overflow) {
    constexpr std::size_t rows = std::numeric_limits<std::size_t>::max();
    const row_range last = share_of_rows(rows, std::size_t{1} << 30, 6, 7);
    EXPECT_EQ(last.first + last.count, rows);
    EXPECT_EQ(share_of_rows(rows, rows, 1, 2).count, 0u);
}

TEST(shares_of_devices, are_assigned_in_rotation_where_ranks_are_many) {
    for (const bool all : {false, true}) {
        EXPECT_THAT(share_of_devices(2, all, 0, 4), ElementsAre(0));
        EXPECT_THAT(share_of_devices(2, all, 1, 4), ElementsAre(1));
        EXPECT_THAT(share_of_devices(2, all, 2, 4), ElementsAre(0));
        EXPECT_THAT(share_of_devices(1, all, 3, 4), ElementsAre(0));
    }
}

TEST(shares_of_devices, are_one_or_all_between_them_where_ranks_are_few) {
    EXPECT_THAT(share_of_devices(8, false, 1, 3), ElementsAre(1));
    EXPECT_THAT(share_of_devices(8, true, 0, 3), ElementsAre(0, 3, 6));
    EXPECT_THAT(share_of_devices(8, true, 1, 3), ElementsAre(1, 4, 7));
    EXPECT_THAT(share_of_devices(8, true, 2, 3), ElementsAre(2, 5));
}

TEST(shares_of_cores, are_one_at_least) {
    EXPECT_GE(share_of_cores(1), 1u);
    EXPECT_EQ(share_of_cores(1'000'000), 1u);
    EXPECT_LE(share_of_cores(2), share_of_cores(1));
}

}  // namespace
}  // namespace sluice::app::shares_tests
