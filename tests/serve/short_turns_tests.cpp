// SPDX-License-Identifier: Apache-2.0
#include "serve/short_turns.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "serve/support/turns.hpp"

namespace sluice::serve::short_turns_tests {
namespace {

using testing::scheduling;
using testing::scheduling_of;

TEST(short_turns, are_of_the_calling_thread_only) {
    if (!testing::system_has_turns()) GTEST_SKIP() << "this system knows no turns of threads (Linux 6.12 and later do)";
    const auto before = scheduling_of(0);
    std::optional<scheduling> other;
    std::thread([&] {
        ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19), 0);
        take_short_turns();
        other = scheduling_of(0);
    }).join();
    ASSERT_TRUE(other);
    EXPECT_EQ(other->runtime, testing::shortest_turn_ns);
    EXPECT_EQ(other->nice, 19);
    EXPECT_EQ(other->policy, static_cast<std::uint32_t>(SCHED_OTHER));
    EXPECT_EQ(scheduling_of(0)->runtime, before->runtime);
}

TEST(short_turns, another_policy_stays_as_it_is) {
    std::optional<scheduling> before, after;
    std::thread([&] {
        const sched_param none{};
        ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
        before = scheduling_of(0);
        take_short_turns();
        after = scheduling_of(0);
    }).join();
    ASSERT_TRUE(before && after);
    EXPECT_EQ(after->policy, static_cast<std::uint32_t>(SCHED_BATCH));
    EXPECT_EQ(after->runtime, before->runtime);
}

}  // namespace
}  // namespace sluice::serve::short_turns_tests
