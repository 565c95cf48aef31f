// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/run_guard.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/guards_aside.hpp"

namespace sluice::run_guard_tests {
namespace {

using namespace std::chrono_literals;

struct over : std::runtime_error {
    over() : std::runtime_error("over") {}
};

// What a run is: steps, and a look between them.
void run_until_ended() {
    while (true) run_guard::check();
}

TEST(run_guard, ends_a_run_between_two_steps) {
    const run_guard guard([] { throw over(); });
    EXPECT_THROW(run_until_ended(), over);
}

TEST(run_guard, looks_no_more_often_than_it_says) {
    int looks = 0;
    const auto begin = run_guard::clock::now();
    const run_guard guard([&] { ++looks; });
    while (run_guard::clock::now() < begin + 10 * run_guard::look_time) run_guard::check();
    EXPECT_GE(looks, 1);
    EXPECT_LE(looks, 10);
}

TEST(run_guard, that_is_outside_ends_what_runs_under_another_one) {
    const run_guard outer([] { throw over(); });
    const run_guard inner([] {});
    EXPECT_THROW(run_until_ended(), over);
}

TEST(run_guard, that_has_gone_is_not_asked_and_other_threads_have_their_own) {
    {
        const run_guard guard([] { throw over(); });
    }
    const run_guard guard([] { throw over(); });
    std::thread([] {
        const auto begin = run_guard::clock::now();
        while (run_guard::clock::now() < begin + 3 * run_guard::look_time) run_guard::check();
    }).join();
    std::this_thread::sleep_for(2 * run_guard::look_time);
    EXPECT_THROW(run_guard::check(), over);
}

TEST(run_guard, that_is_set_aside_is_not_asked_and_one_made_meanwhile_is) {
    const run_guard guard([] { throw over(); });
    std::this_thread::sleep_for(2 * run_guard::look_time);
    {
        const detail::guards_aside aside;
        run_guard::check();
        const run_guard inner([] { throw std::logic_error("inner"); });
        std::this_thread::sleep_for(2 * run_guard::look_time);
        EXPECT_THROW(run_guard::check(), std::logic_error);
    }
    EXPECT_THROW(run_guard::check(), over);
}

}  // namespace
}  // namespace sluice::run_guard_tests
