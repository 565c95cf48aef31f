// SPDX-License-Identifier: Apache-2.0
#include "cpu/current_core.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
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

TEST(core_changes, are_due_once_in_a_millisecond) {
    core_change change;
    const auto begin = core_change::clock::now();
    EXPECT_TRUE(change.is_due(begin));
    change.leave(current_core(), begin);
    EXPECT_FALSE(change.is_due(begin + std::chrono::microseconds(999)));
    EXPECT_TRUE(change.is_due(begin + std::chrono::microseconds(1000)));
}

TEST(core_changes, tick_about_once_in_a_millisecond) {
    core_change change;
    change.has_ticked();
    const auto begin = core_change::clock::now();
    int ticks = 0;
    while (ticks < 20 && core_change::clock::now() - begin < std::chrono::seconds(20)) ticks += change.has_ticked();
    EXPECT_EQ(ticks, 20);
    EXPECT_GE(core_change::clock::now() - begin, std::chrono::milliseconds(5));  // 19 of a quarter of a millisecond
}

TEST(woken_threads, wake_up_on_another_core_and_may_use_all_afterwards) {
    const cpu_set_t allowed = allowed_cores();
    if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "this process may run on one core only";
    cpu::woken_thread cores;
    std::latch is_set(1), is_kept_off(1);
    int core = -1, woken_on = -1;
    cpu_set_t meanwhile, after;
    std::thread sleeper([&] {
        cores.set_thread();
        is_set.count_down();
        is_kept_off.wait();
        woken_on = current_core();
        meanwhile = allowed_cores();
        cores.allow_all();
        after = allowed_cores();
    });
    is_set.wait();
    core = current_core();
    cores.keep_off(core);
    is_kept_off.count_down();
    sleeper.join();
    EXPECT_NE(woken_on, core);
    EXPECT_FALSE(CPU_ISSET(core, &meanwhile));
    EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
}

// Of the user's, while it sleeps.
TEST(woken_threads, keep_a_change_that_is_not_theirs) {
    std::thread([] {
        const cpu_set_t allowed = allowed_cores();
        const int core = current_core();
        if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "this process may run on one core only";
        cpu::woken_thread cores;
        cores.set_thread();
        cores.keep_off(core);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        cores.allow_all();
        const cpu_set_t after = allowed_cores();
        EXPECT_TRUE(CPU_EQUAL(&after, &one));
    }).join();
}

#endif

}  // namespace sluice::current_core_tests
