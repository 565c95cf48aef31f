// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/sync_wait.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>

#include "async/support/gate.hpp"

namespace sluice::sync_wait_tests {
namespace {

// Awaiters of every kind.
class ready_number {
public:
    explicit ready_number(int number) : number_(number) {}
    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    int await_resume() const noexcept { return number_; }

private:
    int number_;
};

class by_member {
public:
    ready_number operator co_await() const& { return ready_number(1); }
    ready_number operator co_await() && { return ready_number(2); }
};

class by_function {};
ready_number operator co_await(const by_function&) { return ready_number(3); }

// Keeps its value itself and gives a reference to it.
class lends {
public:
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
    std::unique_ptr<int>&& await_resume() noexcept { return std::move(value_); }

private:
    std::unique_ptr<int> value_ = std::make_unique<int>(4);
};

// Resumes on a new thread.
class on_a_new_thread {
public:
    on_a_new_thread() = default;
    on_a_new_thread(const on_a_new_thread&) = delete;  // it owns the thread
    on_a_new_thread& operator=(const on_a_new_thread&) = delete;
    ~on_a_new_thread() { thread_.join(); }

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
        std::thread([this, waiter] {
            here_ = std::this_thread::get_id();
            waiter.resume();
        }).swap(thread_);
    }
    std::thread::id await_resume() const noexcept { return here_; }

private:
    std::thread thread_;
    std::thread::id here_;
};

class transfers {
public:
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) const noexcept { return waiter; }
    void await_resume() const { throw std::runtime_error("resumed"); }
};

static_assert(awaitable<ready_number> && awaitable<ready_number&> && awaitable<const ready_number&>);
static_assert(awaitable<by_member> && awaitable<by_function> && awaitable<transfers>);
static_assert(!awaitable<int> && !awaitable<void> && !awaitable<std::unique_ptr<int>>);
static_assert(std::same_as<await_result_t<lends>, std::unique_ptr<int>&&>);
static_assert(std::same_as<detail::kept_result_t<lends>, std::unique_ptr<int>>);

TEST(sync_wait, takes_awaiters) { EXPECT_EQ(sync_wait(ready_number(7)), 7); }

TEST(sync_wait, takes_what_has_operator_co_await_as_it_is_passed) {
    by_member member;
    EXPECT_EQ(sync_wait(member), 1);
    EXPECT_EQ(sync_wait(std::move(member)), 2);
    EXPECT_EQ(sync_wait(by_function()), 3);
}

TEST(sync_wait, keeps_what_an_rvalue_reference_refers_to) {
    const std::unique_ptr<int> value = sync_wait(lends());
    EXPECT_EQ(*value, 4);
}

TEST(sync_wait, leaves_an_awaitable_with_a_name_to_the_caller) {
    test::gate open;
    open.open();
    sync_wait(open);
    sync_wait(open);
}

TEST(sync_wait, throws_what_the_awaitable_throws) { EXPECT_THROW(sync_wait(transfers()), std::runtime_error); }

TEST(sync_wait, blocks_until_another_thread_completes_the_awaitable) {
    test::gate gate;
    std::thread opener([&] { gate.open(); });
    sync_wait(gate);
    EXPECT_TRUE(gate.is_open());
    opener.join();
}

TEST(sync_wait, lets_the_awaitable_end_on_any_thread) {
    for (int round = 0; round < 200; ++round) {
        on_a_new_thread other;
        EXPECT_NE(sync_wait(other), std::this_thread::get_id());
    }
}

TEST(sync_wait, works_inside_a_coroutine_that_another_one_waits_for) {
    auto inner = []() -> task<int> { co_return 5; };
    auto outer = [&]() -> task<int> { co_return sync_wait(inner()); };
    EXPECT_EQ(sync_wait(outer()), 5);
}

}  // namespace
}  // namespace sluice::sync_wait_tests
