// SPDX-License-Identifier: Apache-2.0
// retry: when the next attempt begins, after which delay, and what ends it.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::retry_tests {
namespace {

using namespace std::chrono_literals;

constexpr auto for_ever = 1h;

class retry_test : public testing::Test {
protected:
    // Fails on the device, so that its failure is known only there.
    static auto fails_later() {
        return host_call([]() -> int { throw std::runtime_error("later"); });
    }
    // Fails when it is submitted.
    static auto is_refused() {
        return with_context([](execution_context&) -> int { throw std::runtime_error("at submission"); });
    }
    static errc code_of(const std::exception_ptr& failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const error& its) {
            return static_cast<errc>(its.code().value());
        } catch (...) {
            return errc{};
        }
    }
    template <typename Op>
    errc code_of(Op op) {
        try {
            static_cast<void>(sync(std::move(op), pool));
        } catch (...) {
            return code_of(std::current_exception());
        }
        return errc{};
    }
    static void wait_until_called(const std::atomic<int>& count, int value) {
        while (count.load() < value) std::this_thread::sleep_for(1ms);
    }

    runtime owner{{.cpu_workers = 2, .cuda = false}};
    round_robin pool{owner.default_device(), 2};
};

TEST(growing_delay, grows_to_its_bound_and_is_shortened_by_the_seed) {
    using seconds = std::chrono::duration<double>;
    detail::delays exact({.first = 1ms, .most = 10ms, .growth = 3, .jitter = 0});
    for (const double expected : {0.001, 0.003, 0.009, 0.01, 0.01}) EXPECT_DOUBLE_EQ(exact.next().count(), expected);
    detail::delays a({.first = 4ms, .most = 4ms, .seed = 1}), again({.first = 4ms, .most = 4ms, .seed = 1}),
        other({.first = 4ms, .most = 4ms, .seed = 2});
    int equal = 0;
    for (int i = 0; i < 100; ++i) {
        const seconds one = a.next();
        EXPECT_EQ(one, again.next());
        EXPECT_GT(one, 2ms - 1ns);
        EXPECT_LE(one, 4ms);
        equal += one == other.next() ? 1 : 0;
    }
    EXPECT_LT(equal, 3);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const growing_delay& wrong :
         {growing_delay{.first = -1ms}, growing_delay{.first = seconds(nan)}, growing_delay{.most = -1ms},
          growing_delay{.growth = 0.5}, growing_delay{.growth = std::numeric_limits<double>::infinity()},
          growing_delay{.jitter = 1.5}, growing_delay{.jitter = nan}}) {
        EXPECT_THROW(retry(2, wrong, [] { return value(1); }), error);
    }
}

TEST_F(retry_test, each_further_attempt_comes_after_its_delay) {
    const auto begin = std::chrono::steady_clock::now();
    int calls = 0;
    const int answer = sync(retry(4, growing_delay{.first = 10ms, .jitter = 0},
                                  [&] {
                                      return host_call([&] {
                                          if (++calls < 4) throw std::runtime_error("not yet");
                                          return 42;
                                      });
                                  }),
                            pool);
    EXPECT_EQ(answer, 42);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 70ms);  // 10 + 20 + 40
}

TEST_F(retry_test, a_failure_that_is_not_named_is_not_tried_again) {
    int calls = 0;
    const auto fails_with = [&](errc code) {
        calls = 0;
        const auto make = [&, code]() -> decltype(fails_later()) {
            ++calls;
            throw error(code, "on purpose");
        };
        const auto again = failed_with<errc::out_of_memory, errc::io_failed>;
        EXPECT_EQ(code_of(retry(3, growing_delay{.first = 1us}, make, again)), code);
        return calls;
    };
    EXPECT_EQ(fails_with(errc::out_of_memory), 3);
    EXPECT_EQ(fails_with(errc::io_failed), 3);
    EXPECT_EQ(fails_with(errc::bad_file), 1);
}

// --- when an attempt has ended ------------------------------------------------------------------------------

// A host call runs when the operation next to it is refused.
TEST_F(retry_test, an_attempt_begins_when_nothing_of_the_one_before_runs) {
    std::atomic<int> ended = 0;
    int calls = 0;
    const auto slow = [&] {
        return host_call([&] {
            std::this_thread::sleep_for(10ms);
            return ++ended;
        });
    };
    const auto expect_ended = [&](auto attempt) {
        ended = calls = 0;
        EXPECT_THROW(sync(retry(3,
                                [&] {
                                    EXPECT_EQ(ended, calls++);
                                    return attempt();
                                }),
                          pool),
                     std::runtime_error);
        EXPECT_EQ(ended, 3);
    };
    expect_ended([&] { return zip(slow(), is_refused()); });
    expect_ended([&] {
        auto [first, second] = unzip(zip(slow(), is_refused()));
        return zip(std::move(first), std::move(second));
    });
    expect_ended([&] { return zip(retry(1, slow), is_refused()); });
    expect_ended([&] { return zip(slow(), retry(1, [] { return is_refused(); })); });
}

TEST_F(retry_test, what_recovers_begins_when_nothing_of_what_failed_runs) {
    std::atomic<bool> has_ended = false;
    auto slow = host_call([&] {
        std::this_thread::sleep_for(10ms);
        return has_ended.exchange(true) ? 1 : 0;
    });
    sync(zip(std::move(slow), is_refused()).or_else([&](const std::exception_ptr&) {
        EXPECT_TRUE(has_ended);
        return value(std::tuple(1, 1));
    }),
         pool);
}

// --- giving up ----------------------------------------------------------------------------------------------

// Nothing waits for the end of a delay when the operation is given up.
TEST_F(retry_test, a_delay_ends_with_its_operation) {
    const auto begin = std::chrono::steady_clock::now();
    const auto slow = [](std::atomic<int>& calls) {
        return retry(3, growing_delay{.first = for_ever, .most = for_ever}, [&calls] {
            ++calls;
            return fails_later();
        });
    };
    std::atomic<int> timed = 0, dropped = 0, stopped = 0, closed = 0;
    EXPECT_EQ(code_of(timeout(slow(timed), 20ms)), errc::timed_out);
    EXPECT_LE(timed, 1);
    {
        const auto future = spawn(slow(dropped), pool);
        wait_until_called(dropped, 1);
    }
    std::stop_source stop;
    auto future = spawn(stop_when(slow(stopped), stop.get_token()), pool);
    wait_until_called(stopped, 1);
    stop.request_stop();
    EXPECT_THROW(std::move(future).get(), error);
    auto own = std::make_unique<runtime>(runtime_options{.cpu_workers = 1, .cuda = false});
    round_robin of_own(own->default_device(), 1);
    auto left = spawn(slow(closed), of_own);
    wait_until_called(closed, 1);
    own.reset();
    EXPECT_ANY_THROW(std::move(left).get());
    EXPECT_LE(std::max({dropped.load(), stopped.load(), closed.load()}), 2);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
}

// Its attempts run one after the other without a command that would be waited for.
TEST_F(retry_test, one_that_fails_at_submission_can_be_given_up_between_its_attempts) {
    constexpr int many = 20'000'000;
    constexpr auto least = std::chrono::duration<double>::zero();
    std::atomic<int> calls = 0;
    const auto make = [&] {
        ++calls;
        return is_refused();
    };
    EXPECT_EQ(code_of(timeout(retry(many, make), 20ms)), errc::timed_out);
    EXPECT_EQ(code_of(timeout(retry(many, growing_delay{.first = least}, make), 20ms)), errc::timed_out);
    std::stop_source stop;
    auto stopped = spawn(stop_when(retry(many, make), stop.get_token()), pool);
    stop.request_stop();
    EXPECT_THROW(std::move(stopped).get(), error);
    {
        const auto dropped = spawn(retry(many, make), pool);
    }
    const int called = calls;
    EXPECT_LT(called, many);
    owner.default_device().synchronize();
    EXPECT_EQ(calls, called);  // none is called any more
}

TEST_F(retry_test, no_delay_follows_when_again_gives_the_operation_up) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = held;
    std::optional<spawned<int>> future;
    std::latch is_there(1), is_given_up(1);
    future.emplace(spawn(
        retry(
            5, growing_delay{.first = for_ever, .most = for_ever}, [kept = std::move(held)] { return fails_later(); },
            [&](const std::exception_ptr&) {
                is_there.wait();
                future.reset();
                is_given_up.count_down();
                return true;
            }),
        pool));
    is_there.count_down();
    is_given_up.wait();
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!watched.expired() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(watched.expired());
}

// --- shortage -----------------------------------------------------------------------------------------------

// Eight threads need more memory than there is; each holds its own for a moment, and tries again.
TEST(retry_under_shortage, eight_threads_all_get_their_memory_in_the_end) {
    constexpr std::size_t most = (2u << 20) / sizeof(float);
    constexpr int rounds = 5;
    runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cpu_memory_bytes = 8u << 20, .cuda = false});
    device& cpu = machine.default_device();
    std::atomic<int> attempts = 0;
    round_robin first(cpu, 1);
    std::optional held(sync(full<float>({3 * most}, 1), first));  // until each has failed at least once
    std::atomic<int> in_hand = 0;
    {
        std::vector<std::jthread> threads;
        for (unsigned id = 0; id < 8; ++id) {
            threads.emplace_back([&, id] {
                round_robin own(cpu, 1);
                const auto make = [&] {
                    ++attempts;
                    return full<float>({most}, 1);
                };
                for (int round = 0; round < rounds; ++round) {
                    const growing_delay delay{.first = 100us, .most = 5ms, .seed = id};
                    auto patient = retry(1'000'000, delay, make, failed_with<errc::out_of_memory>);
                    const tensor<float> mine = sync(std::move(patient), own);
                    EXPECT_LE(++in_hand, 4);
                    std::this_thread::sleep_for(500us);
                    --in_hand;
                }
            });
        }
        while (attempts < 2 * 8) std::this_thread::sleep_for(1ms);
        held.reset();
    }
    EXPECT_GT(attempts, 8 * rounds);
    cpu.synchronize();
    EXPECT_EQ(cpu.device_pool().usage().in_use_bytes, 0u);
}

// The end of the runtime ends the attempts that are left, however many that are.
TEST(retry_under_shortage, ends_with_the_runtime) {
    auto machine = std::make_unique<runtime>(runtime_options{.cpu_workers = 1, .cuda = false});
    round_robin pool(machine->default_device(), 1);
    std::atomic<int> calls = 0;
    auto patient = spawn(retry(std::numeric_limits<int>::max(), growing_delay{.first = for_ever, .most = for_ever},
                               [&] {
                                   ++calls;
                                   return host_call([]() -> int { throw std::runtime_error("on purpose"); });
                               }),
                         pool);
    while (calls != 1) std::this_thread::sleep_for(1ms);
    machine.reset();
    EXPECT_ANY_THROW(std::move(patient).get());
    EXPECT_LE(calls, 2);
}

}  // namespace
}  // namespace sluice::retry_tests
