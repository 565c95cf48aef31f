// SPDX-License-Identifier: Apache-2.0
#include "runtime/usable_cores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "sluice/runtime/runtime.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace sluice::usable_cores_tests {

TEST(usable_cores, are_not_more_than_the_machine_has) {
    EXPECT_GE(detail::usable_cores(), 1u);
    EXPECT_LE(detail::usable_cores(), std::max(1u, std::thread::hardware_concurrency()));
}

#if defined(__linux__)
TEST(usable_cores, are_those_on_which_the_calling_thread_may_run_and_as_many_are_the_workers_of_its_runtime) {
    std::thread([] {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(sched_getcpu(), &only);
        ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
        EXPECT_EQ(detail::usable_cores(), 1u);
        const runtime machine({.cuda = false});
        EXPECT_EQ(machine.find("cpu:0").properties().compute_units, 1);
        const runtime with_two({.cpu_workers = 2, .cuda = false});
        EXPECT_EQ(with_two.find("cpu:0").properties().compute_units, 2);
    }).join();
}
#endif

}  // namespace sluice::usable_cores_tests
