// SPDX-License-Identifier: Apache-2.0
// A long command that begins while all cores compute.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::test_support {

// On a device with two workers two threads compute, so no worker is woken for the long command of the second thread.
// The first thread ends soon. From then on a worker must help: without one, the command has 10,000 parts of a
// millisecond. divide(parts, body) calls body with the number of each part, as a command of the device does.
template <typename Divide>
void expect_help_for_a_long_command(const Divide& divide) {
    runtime owner{{.cpu_workers = 2, .cuda = false}};
    device& on = owner.find("cpu:0");
    std::latch computes(1), may_end(1);
    std::thread other([&] {
        single_stream policy{on};
        sync(host_call([&] {
                 divide(2, [&](std::size_t part) {
                     if (part != 0) return;
                     computes.count_down();
                     may_end.wait();
                 });
             }),
             policy);
    });
    computes.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // now the workers sleep
    constexpr std::size_t parts = 10'000;
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::size_t alone = 0;
    single_stream policy{on};
    sync(host_call([&] {
             divide(parts, [&](std::size_t part) {
                 if (part == 20) may_end.count_down();
                 std::unique_lock lock(mutex);
                 threads.insert(std::this_thread::get_id());
                 if (threads.size() == 2) return;
                 ++alone;
                 lock.unlock();
                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
             });
         }),
         policy);
    other.join();
    EXPECT_EQ(threads.size(), 2u);
    EXPECT_LT(alone, parts);
}

}  // namespace sluice::test_support
