// SPDX-License-Identifier: Apache-2.0
// The stacks of the simulator's fibers.
#include "sim/fiber.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace sluice::sim::fiber_tests {
namespace {

struct mapping {
    std::uintptr_t begin = 0, end = 0;
    std::string rights;
};

struct neighbours {
    mapping with, before;  // the mapping of an address, and the one below it
};

std::optional<neighbours> mappings_at(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream all("/proc/self/maps");
    mapping before;
    for (std::string line; std::getline(all, line);) {
        std::istringstream words(line);
        mapping one;
        char dash = 0;
        words >> std::hex >> one.begin >> dash >> one.end >> one.rights;
        if (one.begin <= wanted && wanted < one.end) return neighbours{one, before};
        before = one;
    }
    return std::nullopt;
}

struct visit {
    fiber* home;
    fiber* self = nullptr;
    std::optional<neighbours> found;
};

}  // namespace

// A recursion without end meets memory that cannot be written, before it reaches other memory.
TEST(fibers, have_memory_below_their_stack_that_cannot_be_accessed) {
    fiber home;
    visit here{&home, nullptr, {}};
    const auto look = [](void* argument) noexcept {
        auto& asked = *static_cast<visit*>(argument);
        // Not a local variable's address: the address sanitizer may keep those elsewhere.
        asked.found = mappings_at(__builtin_frame_address(0));
        for (;;) asked.self->switch_to(*asked.home, fiber::return_here::never);
    };
    fiber other(look, &here);
    here.self = &other;
    home.switch_to(other);
    ASSERT_TRUE(here.found);
    const auto& [stack, below] = *here.found;
    EXPECT_EQ(stack.rights.substr(0, 3), "rw-");
    EXPECT_EQ(below.end, stack.begin);
    EXPECT_EQ(below.rights.substr(0, 3), "---");
    EXPECT_GE(below.end - below.begin, static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace sluice::sim::fiber_tests
