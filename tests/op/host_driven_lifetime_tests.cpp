// SPDX-License-Identifier: Apache-2.0
// How long, and by how many threads at a time, functions of a host-driven operation are called.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "sluice/sluice.hpp"
#include "support/gate.hpp"

namespace sluice::host_driven_lifetime_tests {
namespace {

using namespace std::chrono_literals;
using test_support::gate;

class host_driven_lifetime : public testing::Test {
protected:
    // Fails on the device, so that its failure is known only there.
    static auto fails_later() {
        return host_call([]() -> int { throw std::runtime_error("later"); });
    }
    // Returns when the completion thread has done all that it had to do before.
    void await_completion_thread() {
        owner.default_device().synchronize();
        round_robin own(owner.default_device(), 1);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(sync(retry(1, [] { return host_call([] { return 1; }); }), own), 1);
    }

    runtime owner{{.cpu_workers = 2, .cuda = false}};
    round_robin pool{owner.default_device(), 1};
};

// Fails the test when two threads are in such a scope at the same time.
class alone {
public:
    explicit alone(std::atomic<int>& inside) : inside_(inside) { EXPECT_EQ(inside_.fetch_add(1), 0); }
    alone(const alone&) = delete;  // it is a scope
    alone& operator=(const alone&) = delete;
    ~alone() { --inside_; }

private:
    std::atomic<int>& inside_;
};

TEST_F(host_driven_lifetime, a_dropped_future_calls_no_function_of_its_operation) {
    std::atomic<int> calls = 0;
    gate held(pool.next());
    {
        const auto dropped = spawn(retry(3,
                                         [&] {
                                             ++calls;
                                             return fails_later();
                                         })
                                       .or_else([&](const std::exception_ptr&) {
                                           ++calls;
                                           return value(0);
                                       }),
                                   pool);
    }
    EXPECT_EQ(calls, 1);
    held.open();
    await_completion_thread();
    EXPECT_EQ(calls, 1);
}

TEST_F(host_driven_lifetime, dropping_a_future_destroys_what_its_functions_hold) {
    auto held_by_function = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held_by_function;
    gate held(pool.next());
    {
        const auto dropped = spawn(retry(3, [held_by_function] { return fails_later(); }), pool);
        held_by_function.reset();
        EXPECT_FALSE(watch.expired());
    }
    EXPECT_TRUE(watch.expired());
}

TEST_F(host_driven_lifetime, assigning_to_a_future_drops_the_one_before) {
    std::atomic<int> calls = 0;
    gate held(pool.next());
    auto future = spawn(retry(3,
                              [&] {
                                  ++calls;
                                  return fails_later();
                              }),
                        pool);
    future = spawn(retry(1, [&] { return fails_later(); }), pool);
    held.open();
    EXPECT_THROW(std::move(future).get(), std::runtime_error);
    await_completion_thread();
    EXPECT_EQ(calls, 1);
}

TEST_F(host_driven_lifetime, dropping_a_future_waits_for_the_function_that_is_running) {
    std::latch is_running(1), may_end(1);
    std::atomic<bool> has_ended = false;
    std::atomic<int> calls = 0;
    std::optional future = spawn(retry(5,
                                       [&] {
                                           if (++calls == 2) {
                                               is_running.count_down();
                                               may_end.wait();
                                               has_ended = true;
                                           }
                                           return fails_later();
                                       }),
                                 pool);
    is_running.wait();
    std::jthread later([&] {
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        may_end.count_down();
    });
    future.reset();
    const int called = calls;  // more than 2 where this thread was slower than the other one
    EXPECT_TRUE(has_ended);
    await_completion_thread();
    EXPECT_EQ(calls, called);  // none is called any more
}

TEST_F(host_driven_lifetime, a_function_may_drop_the_future_of_its_own_operation) {
    std::atomic<int> calls = 0;
    std::latch has_dropped(1);
    std::optional<spawned<int>> future;
    std::latch is_there(1);
    future.emplace(spawn(retry(5,
                               [&] {
                                   if (++calls == 2) {
                                       is_there.wait();
                                       future.reset();
                                       has_dropped.count_down();
                                   }
                                   return fails_later();
                               }),
                         pool));
    is_there.count_down();
    has_dropped.wait();
    await_completion_thread();
    EXPECT_EQ(calls, 2);
}

TEST_F(host_driven_lifetime, a_coroutine_that_is_dropped_while_it_waits_drops_the_operation) {
    std::atomic<int> calls = 0;
    gate held(pool.next());
    {
        run_loop loop;
        auto waiting = [](spawned<int> future) -> task<int> { co_return co_await std::move(future); };
        std::optional<task<int>> body(waiting(spawn(retry(3,
                                                          [&] {
                                                              ++calls;
                                                              return fails_later();
                                                          }),
                                                    pool)));
        body.reset();  // it has not started: the future is destroyed with it
    }
    held.open();
    await_completion_thread();
    EXPECT_EQ(calls, 1);
}

TEST_F(host_driven_lifetime, a_deadline_ends_the_functions_before_the_waiter_gets_the_error) {
    for (int round = 0; round < 20; ++round) {
        auto calls = std::make_unique<std::atomic<int>>(0);
        try {
            sync(timeout(retry(1'000'000,
                               [&, counted = calls.get()] {
                                   ++*counted;
                                   return fails_later();
                               }),
                         200us),
                 pool);
            ADD_FAILURE() << "a million attempts in 200 us";
        } catch (const error& late) {
            EXPECT_EQ(late.code(), errc::timed_out);
        }
        calls.reset();  // no function is called any more
    }
}

TEST_F(host_driven_lifetime, a_function_that_requests_a_stop_is_the_last_one_called) {
    std::stop_source stop;
    int calls = 0;
    try {
        sync(stop_when(retry(5,
                             [&] {
                                 if (++calls == 2) stop.request_stop();
                                 return fails_later();
                             }),
                       stop.get_token()),
             pool);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const error& stopped) {
        EXPECT_EQ(stopped.code(), errc::canceled);
    }
    EXPECT_EQ(calls, 2);
}

TEST_F(host_driven_lifetime, functions_of_one_operation_are_called_by_one_thread_at_a_time) {
    round_robin two(owner.default_device(), 2);
    std::atomic<int> inside = 0;
    std::atomic<int> first_calls = 0, second_calls = 0;
    auto first = retry(3, [&] {
        const alone scope(inside);
        ++first_calls;
        return fails_later();
    });
    auto second = retry(3, [&] {
        const alone scope(inside);
        // Time enough for the first part's second attempt, which must not start meanwhile.
        const auto until = std::chrono::steady_clock::now() + 30ms;
        while (++second_calls == 1 && first_calls == 1 && std::chrono::steady_clock::now() < until)
            owner.default_device().synchronize();
        return fails_later();
    });
    EXPECT_THROW(sync(zip(std::move(first), std::move(second)), two), std::runtime_error);
    EXPECT_EQ(first_calls, 3);
}

TEST_F(host_driven_lifetime, futures_dropped_at_any_moment_leak_nothing) {
    auto token = std::make_shared<int>(0);
    for (int round = 0; round < 300; ++round) {
        auto future =
            spawn(timeout(zip(retry(4, [token] { return fails_later(); }),
                              retry(4, [token] { return fails_later().or_else([token](auto) { return value(1); }); })),
                          round % 3 == 0 ? 50us : 10'000'000us),
                  pool);
        for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
    }
    EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace sluice::host_driven_lifetime_tests
