// SPDX-License-Identifier: Apache-2.0
// when_memory: waits while memory may come back, and fails when none can.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::when_memory_tests {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
// Longer than any test may take: where nothing can come back, out_of_memory comes before.
constexpr auto very_long = 60s;

class when_memory_test : public testing::Test {
protected:
    static auto megabytes(std::size_t count) { return full<float>({count * mebibyte / sizeof(float)}, 1); }
    // Each of them fits; there is memory for one.
    static auto two() { return zip(megabytes(5), megabytes(5)); }

    template <typename Op>
    errc code_of(Op op) {
        try {
            static_cast<void>(sync(std::move(op), pool));
        } catch (const error& failure) {
            return static_cast<errc>(failure.code().value());
        }
        return errc{};
    }

    runtime machine{{.cpu_devices = 1, .cpu_workers = 2, .cpu_memory_bytes = 8 * mebibyte, .cuda = false}};
    device& cpu = machine.default_device();
    round_robin pool{cpu, 1};
};

// Eight threads take two blocks each, in one operation, where there is memory for fewer.
TEST_F(when_memory_test, eight_threads_all_get_their_memory_in_the_end) {
    constexpr int rounds = 5;
    std::atomic<int> attempts = 0;
    std::optional held(sync(megabytes(7), pool));  // until each has failed at least once
    {
        std::vector<std::jthread> threads;
        for (unsigned id = 0; id < 8; ++id) {
            threads.emplace_back([&, id] {
                round_robin own(cpu, 1);
                const std::size_t n = (mebibyte + 4096 * id) / sizeof(float);
                const auto make = [&] {
                    ++attempts;
                    return zip(full<float>({n}, 1), full<float>({n}, 2).and_then(download));
                };
                for (int round = 0; round < rounds; ++round) {
                    const auto [ones, values] = sync(when_memory(make), own);
                    std::this_thread::sleep_for(500us);
                    EXPECT_EQ(values, std::vector<float>(n, 2));
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

TEST_F(when_memory_test, waits_while_something_is_held) {
    std::optional held(sync(megabytes(5), pool));
    auto waiting = spawn(when_memory([] { return megabytes(6); }), pool);
    EXPECT_FALSE(waiting.wait_for(30ms));
    EXPECT_EQ(code_of(timeout(when_memory([] { return megabytes(6); }), 20ms)), errc::timed_out);
    held.reset();
    EXPECT_EQ(std::move(waiting).get().size_bytes(), 6 * mebibyte);
}

TEST_F(when_memory_test, fails_at_once_for_more_than_there_is_at_all) {
    const auto held = sync(megabytes(5), pool);
    int calls = 0;
    EXPECT_EQ(code_of(timeout(when_memory([&] {
                                  ++calls;
                                  return megabytes(9);
                              }),
                              very_long)),
              errc::out_of_memory);
    EXPECT_EQ(calls, 1);
}

TEST_F(when_memory_test, fails_where_nothing_can_come_back) {
    EXPECT_EQ(code_of(timeout(when_memory([] { return two(); }), very_long)), errc::out_of_memory);
}

TEST_F(when_memory_test, passes_on_every_other_failure_at_once) {
    int calls = 0;
    const auto fails = [&]() -> decltype(megabytes(1)) {
        ++calls;
        throw error(errc::bad_file, "on purpose");
    };
    EXPECT_EQ(code_of(when_memory(fails)), errc::bad_file);
    EXPECT_EQ(calls, 1);
}

// The commands of an attempt that failed do not count as a reason to wait, and do not pile up.
TEST_F(when_memory_test, an_attempt_that_failed_midway_has_ended_before_the_next_one) {
    std::atomic<int> ended = 0;
    int calls = 0;
    const auto make = [&] {
        EXPECT_EQ(ended, calls++);
        auto slow = host_call([&] {
            std::this_thread::sleep_for(30ms);  // longer than each delay
            return ++ended;
        });
        return zip(std::move(slow), two());
    };
    EXPECT_EQ(code_of(timeout(when_memory(make), very_long)), errc::out_of_memory);
    EXPECT_EQ(ended, calls);
    EXPECT_LT(calls, 20);
}

// The workspace of a stream stays with it, and so does what orders collective operations.
TEST_F(when_memory_test, what_the_library_keeps_for_itself_is_not_waited_for) {
    const stream_lease leased(cpu);
    static_cast<void>(leased->workspace(mebibyte));
    static_cast<void>(cpu.collective_order());
    const memory_pool::statistics now = cpu.device_pool().usage();
    EXPECT_GE(now.own_bytes, mebibyte);
    EXPECT_EQ(now.own_bytes, now.in_use_bytes);
    EXPECT_EQ(code_of(timeout(when_memory([] { return two(); }), very_long)), errc::out_of_memory);
    static_cast<void>(leased->workspace(2 * mebibyte));  // the one before is free again
    const memory_pool::statistics grown = cpu.device_pool().usage();
    EXPECT_EQ(grown.own_bytes, grown.in_use_bytes);
}

// A command that runs may release memory, though none is in use for it by an object.
TEST_F(when_memory_test, waits_while_a_command_runs) {
    std::atomic<bool> may_end = false;
    std::atomic<int> calls = 0;
    round_robin other(cpu, 1);
    auto running = spawn(host_call([&] {
                             while (!may_end) std::this_thread::sleep_for(1ms);
                         }),
                         other);
    const memory_pool::statistics host = cpu.host_pool().usage();
    EXPECT_EQ(host.in_use_bytes, host.own_bytes);  // only the command is left
    auto waiting = spawn(when_memory([&] {
                             ++calls;
                             return two();
                         }),
                         pool);
    while (calls < 10 && !waiting.wait_for(1ms)) {  // more often than where nothing runs
    }
    EXPECT_GE(calls, 10);
    may_end = true;
    std::move(running).get();
    EXPECT_THROW(static_cast<void>(std::move(waiting).get()), out_of_memory);
}

}  // namespace
}  // namespace sluice::when_memory_tests
