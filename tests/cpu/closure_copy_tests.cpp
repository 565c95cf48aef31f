// SPDX-License-Identifier: Apache-2.0
#include "cpu/closure_copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

namespace sluice::cpu {

TEST(closure_copy, has_the_bytes_of_the_original_for_any_size) {
    std::array<unsigned char, 5000> original{};
    std::iota(original.begin(), original.end(), static_cast<unsigned char>(1));
    for (const std::size_t bytes : {0, 1, 15, 16, 191, 192, 193, 4096, 5000}) {
        const closure_copy copy(original.data(), bytes);
        EXPECT_EQ(std::memcmp(copy.get(), original.data(), bytes), 0) << bytes;
        EXPECT_NE(copy.get(), original.data());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copy.get()) % alignof(std::max_align_t), 0u) << bytes;
    }
}

TEST(closure_copy, moves_with_its_bytes) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{2000}}) {
        std::vector<unsigned char> original(bytes, 42);
        closure_copy first(original.data(), bytes);
        closure_copy second;
        second = std::move(first);
        original.assign(bytes, 42);
        EXPECT_EQ(std::memcmp(second.get(), original.data(), bytes), 0);
    }
}

TEST(closure_copy, of_zero_bytes_needs_no_original) {
    const closure_copy empty(nullptr, 0);
    EXPECT_NE(empty.get(), nullptr);
}

}  // namespace sluice::cpu
