// SPDX-License-Identifier: Apache-2.0
// Where a runtime cannot be closed: in a child of fork, and while a host call of a driver's thread still runs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "runtime/host_call_end.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice::process_end_tests {
namespace {

// An item that notes when it ran.
struct noted final : detail::host_call_end::item {
    noted(std::vector<int>& in, int which)
        : item{[](item& self) noexcept {
              const noted& it = static_cast<noted&>(self);
              it.all.push_back(it.number);
          }},
          all(in),
          number(which) {}
    std::vector<int>& all;
    const int number;
};

}  // namespace

TEST(process_end, a_child_of_fork_may_destroy_the_runtime_of_its_parent) {
    std::optional<runtime> parents(std::in_place, runtime_options{.cuda = false});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(30);  // a child that waits for its parent's threads would wait for ever
        parents.reset();
        _exit(3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(process_end, what_waits_for_the_end_of_a_host_call_runs_after_the_outermost_one) {
    std::vector<int> ran;
    noted first(ran, 1);
    {
        const detail::host_call_end outer;
        {
            const detail::host_call_end inner;
            EXPECT_TRUE(detail::host_call_end::add(first));
        }
        EXPECT_TRUE(ran.empty());
    }
    EXPECT_EQ(ran, std::vector<int>{1});
}

TEST(process_end, nothing_waits_for_a_host_call_where_none_runs) {
    std::vector<int> ran;
    noted first(ran, 1);
    EXPECT_FALSE(detail::host_call_end::add(first));
    EXPECT_TRUE(ran.empty());
}

}  // namespace sluice::process_end_tests
