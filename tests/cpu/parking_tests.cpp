// SPDX-License-Identifier: Apache-2.0
// A stream that is about to park while the command that it waits for ends. This executable has a pthread_mutex_lock of
// its own, which lets the command end just before any lock that the parking thread takes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "sluice/runtime/runtime.hpp"

namespace {

// Called on this thread before the lock that makes the number 0.
thread_local int locks_to_go = 0;
thread_local std::function<void()> before_lock;

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
    using function = int (*)(pthread_mutex_t*);
    static std::atomic<function> real{nullptr};
    function lock = real.load(std::memory_order_relaxed);
    if (lock == nullptr) {
        lock = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
        real.store(lock, std::memory_order_relaxed);
    }
    if (locks_to_go != 0 && --locks_to_go == 0) before_lock();
    return lock(mutex);
}

namespace sluice::parking_tests {
namespace {

using namespace std::chrono_literals;

bool holds_within(std::chrono::milliseconds time, const auto& condition) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::yield();  // a thread that waits for a stream would run it
    }
    return true;
}

// What a call on a worker shares with the test; the worker may come to its lock later, and finds it over.
struct attempt {
    std::atomic<bool> is_submitted{false}, may_end{false}, has_ended_at_lock{false};
};

TEST(parking, a_stream_continues_whenever_the_awaited_command_ends) {
    const runtime owner({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
    device& on = owner.find("cpu:0");
    const stream_lease first(on), second(on);
    int ended_at_lock = 0;
    for (int locks = 1; locks <= 12; ++locks) {
        const auto one = std::make_shared<attempt>();
        const auto wait_for = [](const std::atomic<bool>& flag) {
            while (!flag) std::this_thread::yield();
        };
        const ticket awaited = first->host_call({"first"}, {[one, wait_for] { wait_for(one->may_end); }});
        second->host_call({"second"}, {[one, wait_for, locks, awaited, by = *first] {
                              wait_for(one->is_submitted);
                              before_lock = [one, awaited, by] {
                                  one->may_end = true;
                                  // A lock that the first stream needs may be held: then it cannot end here.
                                  one->has_ended_at_lock = holds_within(50ms, [&] { return by.passed() >= awaited; });
                              };
                              locks_to_go = locks;
                          }});
        second->order_after(first->point(awaited));
        const ticket last = second->host_call({"after"}, {[] { locks_to_go = 0; }});
        one->is_submitted = true;
        const auto is_over = [&] { return second->passed() >= last; };
        if (!holds_within(200ms, is_over)) one->may_end = true;  // it has parked, with fewer locks
        ASSERT_TRUE(holds_within(10s, is_over)) << "the awaited command ended before lock " << locks;
        ended_at_lock += one->has_ended_at_lock ? 1 : 0;
    }
    EXPECT_GE(ended_at_lock, 2);
}

}  // namespace
}  // namespace sluice::parking_tests
