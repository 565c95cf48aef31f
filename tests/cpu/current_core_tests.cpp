// SPDX-License-Identifier: Apache-2.0
#include "cpu/current_core.hpp"

#include <gtest/gtest.h>

#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace sluice::current_core_tests {

#if defined(__linux__)

using cpu::core_change;
using cpu::current_core;

namespace {

cpu_set_t allowed_cores() {
    cpu_set_t made;
    CPU_ZERO(&made);
    EXPECT_EQ(sched_getaffinity(0, sizeof(made), &made), 0);
    return made;
}

}  // namespace

TEST(current_core, is_one_of_the_allowed) {
    const cpu_set_t allowed = allowed_cores();
    const int core = current_core();
    ASSERT_GE(core, 0);
    EXPECT_TRUE(CPU_ISSET(core, &allowed));
}

// The system may move the thread back at once; not always.
TEST(current_core, is_left_for_another_and_may_be_used_again) {
    const cpu_set_t allowed = allowed_cores();
    if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "this process may run on one core only";
    int changes = 0;
    for (int i = 0; i < 50; ++i) {
        const int before = current_core();
        core_change().leave(before);
        changes += current_core() != before;
        const cpu_set_t after = allowed_cores();
        EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
    }
    EXPECT_GT(changes, 0);
}

TEST(current_core, is_kept_where_it_is_the_only_one) {
    std::thread([] {
        cpu_set_t one;
        CPU_ZERO(&one);
        const int core = current_core();
        CPU_SET(core, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        core_change().leave(core);
        EXPECT_EQ(current_core(), core);
        const cpu_set_t after = allowed_cores();
        EXPECT_TRUE(CPU_EQUAL(&after, &one));
    }).join();
}

TEST(core_changes, are_not_due_again_at_once) {
    core_change change;
    EXPECT_TRUE(change.is_due());
    change.leave(current_core());
    EXPECT_FALSE(change.is_due());
}

#endif

}  // namespace sluice::current_core_tests
