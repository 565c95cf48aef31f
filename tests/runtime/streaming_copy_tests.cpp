// SPDX-License-Identifier: Apache-2.0
// streaming_copy: every byte, and no other byte, at every alignment.
#include "runtime/streaming_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::detail::streaming_copy_tests {
namespace {

constexpr unsigned char untouched = 0xee;

unsigned char value_at(std::size_t i) { return static_cast<unsigned char>(i * 37 % 223); }

void expect_copy(std::size_t bytes, std::size_t to_offset, std::size_t from_offset) {
    constexpr std::size_t margin = 128;
    std::vector<unsigned char> from(from_offset + bytes), to(to_offset + bytes + 2 * margin, untouched);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = value_at(i);
    const std::size_t begin = margin + to_offset;
    streaming_copy(to.data() + begin, from.data() + from_offset, bytes);
    const auto all = std::span(to);
    EXPECT_TRUE(std::ranges::equal(all.subspan(begin, bytes), std::span(from).subspan(from_offset)));
    const auto is_untouched = [](unsigned char each) { return each == untouched; };
    EXPECT_TRUE(std::ranges::all_of(all.first(begin), is_untouched));
    EXPECT_TRUE(std::ranges::all_of(all.subspan(begin + bytes), is_untouched));
}

TEST(streaming_copy, copies_exactly_the_bytes_at_every_alignment) {
    for (const std::size_t bytes : {0u, 1u, 63u, 4096u, 98'303u, 98'304u, 98'305u, 131'072u, 300'007u}) {
        for (const std::size_t to : {0u, 1u, 16u, 63u}) {
            for (const std::size_t from : {0u, 3u, 32u}) {
                SCOPED_TRACE(testing::Message() << bytes << " bytes, offsets " << to << " and " << from);
                expect_copy(bytes, to, from);
            }
        }
    }
}

}  // namespace
}  // namespace sluice::detail::streaming_copy_tests
