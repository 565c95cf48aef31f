// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace sluice::cpu {

TEST(cpu_memory, has_a_limit_of_its_own) {
    memory_budget machine(1 << 20);
    cpu_memory memory(1000, machine);
    EXPECT_EQ(memory.allocate(1001), nullptr);
    EXPECT_EQ(memory.allocate(std::numeric_limits<std::size_t>::max()), nullptr);
    void* const whole = memory.allocate(1000);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(memory.info().free_bytes, 0u);
    EXPECT_EQ(memory.allocate(1), nullptr);
    memory.free(whole, 1000);
    EXPECT_EQ(memory.info().free_bytes, 1000u);
    EXPECT_EQ(memory.info().total_bytes, 1000u);
}

// Each alone may take the whole machine's.
TEST(cpu_memory, shares_the_machines_memory_with_the_others) {
    memory_budget machine(1000);
    cpu_memory device(1000, machine), host(1000, machine);
    void* const first = device.allocate(600);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(host.allocate(401), nullptr);
    EXPECT_EQ(host.info().free_bytes, 400u);
    void* const second = host.allocate(400);
    ASSERT_NE(second, nullptr);
    device.free(first, 600);
    void* const third = host.allocate(600);
    ASSERT_NE(third, nullptr);
    EXPECT_EQ(machine.left(), 0u);
    host.free(second, 400);
    host.free(third, 600);
    EXPECT_EQ(machine.left(), 1000u);
}

// Whether the system gives huge pages depends on its settings; a block that begins inside one would have fewer of them.
TEST(cpu_memory, begins_large_blocks_at_huge_pages) {
    constexpr std::size_t bytes = (std::size_t{5} << 20) + 3;
    memory_budget machine(bytes);
    cpu_memory memory(bytes, machine);
    void* const block = memory.allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (std::size_t{2} << 20), 0u);
    std::memset(block, 1, bytes);
    EXPECT_EQ(memory.info().free_bytes, 0u);
    memory.free(block, bytes);
    EXPECT_EQ(machine.left(), bytes);
}

}  // namespace sluice::cpu
