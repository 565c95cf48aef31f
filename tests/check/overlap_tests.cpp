// SPDX-License-Identifier: Apache-2.0
#include "check/overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

namespace sluice::check::overlap_tests {
namespace {

std::set<std::uint64_t> bytes_of(const byte_span& span) {
    std::set<std::uint64_t> bytes;
    for (std::uint64_t row = 0; row < span.rows; ++row)
        for (std::uint64_t i = 0; i < span.bytes; ++i) bytes.insert(span.at + row * span.pitch + i);
    return bytes;
}

byte_span any_span(std::mt19937_64& random, std::uint64_t pitch) {
    const std::uint64_t bytes = 1 + random() % pitch;
    return {random() % 60, bytes, 1 + random() % 5, pitch};
}

bool share(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
    for (const std::uint64_t each : a)
        if (b.contains(each)) return true;
    return false;
}

}  // namespace

TEST(overlap, is_that_of_the_sets_of_bytes) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const std::uint64_t pitch = 1 + random() % 12;
        const byte_span a = any_span(random, pitch);
        const byte_span b = any_span(random, random() % 2 == 0 ? pitch : 1 + random() % 12);
        const auto of_a = bytes_of(a), of_b = bytes_of(b);
        ASSERT_EQ(overlap(a, b), share(of_a, of_b)) << i;
        ASSERT_TRUE(!contains(a, b) || std::ranges::includes(of_a, of_b)) << i;
    }
}

TEST(overlap, of_nothing_is_none) {
    EXPECT_FALSE(overlap({10, 0, 1, 0}, {5, 10, 1, 10}));
    EXPECT_FALSE(overlap({10, 4, 0, 4}, {5, 10, 1, 10}));
}

}  // namespace sluice::check::overlap_tests
