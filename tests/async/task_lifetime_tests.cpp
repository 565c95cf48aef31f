// SPDX-License-Identifier: Apache-2.0
// What a task holds is destroyed once, in any state in which the task is dropped.
#include <gtest/gtest.h>

#include <stdexcept>

#include "async/support/gate.hpp"
#include "sluice/async/spawn_task.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"

namespace sluice::task_lifetime_tests {
namespace {

using test::counted;
using test::gate;

class task_lifetime : public testing::Test {
protected:
    // Holds one `counted` as a parameter and one as a local while it waits.
    task<int> hold(counted, gate& through) {
        const counted local(alive_);
        co_await through;
        co_return 1;
    }
    task<int> hold_and_await(task<int> inner) {
        const counted local(alive_);
        co_return co_await std::move(inner) + 1;
    }
    task<counted> make() { co_return counted(alive_); }

    // A coroutine that starts and has no waiter.
    class started {
    public:
        explicit started(task<int> body) : root_(detail::make_root(std::move(body))) { root_.start(owner_); }
        int take() { return root_.take(); }

    private:
        detail::blocking_owner owner_;
        detail::root<int> root_;
    };

    int alive_ = 0;
    gate gate_;
};

TEST_F(task_lifetime, dropping_one_that_never_started_frees_its_parameters) {
    {
        const auto dropped = hold(counted(alive_), gate_);
        EXPECT_EQ(alive_, 1);
    }
    EXPECT_EQ(alive_, 0);
}

TEST_F(task_lifetime, dropping_one_that_is_suspended_frees_its_whole_chain) {
    {
        const started chain(hold_and_await(hold(counted(alive_), gate_)));
        EXPECT_EQ(alive_, 3);
    }
    EXPECT_EQ(alive_, 0);
}

TEST_F(task_lifetime, a_finished_one_has_freed_its_frame_before_the_awaiting_coroutine_is_destroyed) {
    int alive_after = -1;
    auto outer = [&]() -> task<int> {
        auto inner = hold(counted(alive_), gate_);
        const int value = co_await std::move(inner);
        alive_after = alive_;
        co_return value;
    };
    started chain(outer());
    EXPECT_EQ(alive_, 2);
    gate_.open();
    EXPECT_EQ(alive_after, 0);
    EXPECT_EQ(chain.take(), 1);
}

TEST_F(task_lifetime, a_result_that_is_dropped_is_destroyed_once) {
    sync_wait(make());
    EXPECT_EQ(alive_, 0);
}

TEST_F(task_lifetime, a_failed_one_frees_its_locals_before_its_exception_is_seen) {
    auto fails = [this]() -> task<> {
        const counted local(alive_);
        co_await gate_;
        throw std::runtime_error("after the gate");
    };
    auto outer = [&]() -> task<int> {
        try {
            co_await fails();
        } catch (const std::runtime_error&) {
            co_return alive_;
        }
        co_return -1;
    };
    started chain(outer());
    EXPECT_EQ(alive_, 1);
    gate_.open();
    EXPECT_EQ(chain.take(), 0);
}

TEST_F(task_lifetime, assigning_to_one_destroys_what_it_held) {
    auto first = hold(counted(alive_), gate_);
    first = hold_and_await(hold(counted(alive_), gate_));
    EXPECT_EQ(alive_, 1);
}

TEST_F(task_lifetime, dropping_one_that_waits_for_all_frees_all) {
    gate second_gate;
    {
        auto both = [&]() -> task<int> {
            auto pair = when_all(hold(counted(alive_), gate_), hold(counted(alive_), second_gate));
            auto [first, second] = co_await std::move(pair);
            co_return first + second;
        };
        const started chain(both());
        EXPECT_EQ(alive_, 4);
    }
    EXPECT_EQ(alive_, 0);
}

TEST_F(task_lifetime, dropping_one_that_waits_for_any_abandons_them_and_each_frees_itself) {
    gate second_gate;
    auto either = [&]() -> task<int> {
        auto first_of = when_any(hold(counted(alive_), gate_), hold(counted(alive_), second_gate));
        const auto first = co_await std::move(first_of);
        co_return static_cast<int>(first.index);
    };
    {
        const started chain(either());
        EXPECT_EQ(alive_, 4);
    }
    EXPECT_EQ(alive_, 4);
    second_gate.open();
    EXPECT_EQ(alive_, 2);
    gate_.open();
    EXPECT_EQ(alive_, 0);
}

TEST_F(task_lifetime, dropping_one_that_waits_for_a_spawned_task_does_not_end_that_task) {
    inline_executor here;
    auto waits = [&]() -> task<int> {
        auto inner = spawn(hold(counted(alive_), gate_), here);
        co_return co_await std::move(inner);
    };
    {
        const started chain(waits());
        EXPECT_EQ(alive_, 2);
    }
    EXPECT_EQ(alive_, 2);
    gate_.open();
    EXPECT_EQ(alive_, 0);
}

}  // namespace
}  // namespace sluice::task_lifetime_tests
