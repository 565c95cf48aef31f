// SPDX-License-Identifier: Apache-2.0
// No thread holds a lock of the library while it waits for a device: what the checked builds of the tests refuse, and
// that nothing hangs where threads wait for memory.
#include "sluice/base/detail/held_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "runtime/recording_backend.hpp"
#include "sluice/sluice.hpp"

namespace sluice::held_lock_tests {
namespace {

using namespace std::chrono_literals;

TEST(held_lock, a_thread_knows_the_locks_that_it_holds) {
    detail::noted_lock<std::mutex> one("one"), other("other");
    EXPECT_FALSE(detail::holds_a_lock());
    one.lock();
    other.lock();
    std::jthread([] { EXPECT_FALSE(detail::holds_a_lock()); }).join();
    one.unlock();
    EXPECT_TRUE(detail::holds_a_lock());
    other.unlock();
    EXPECT_FALSE(detail::holds_a_lock());
}

TEST(held_lock_death, a_wait_for_a_device_with_a_lock_held_ends_a_checked_program_and_names_both) {
    recording::recorded_runtime recorded;
    detail::noted_lock<std::mutex> mine("that of the test");
    recording::run(*recorded.a, {}, {});
    EXPECT_DEATH(
        {
            const std::lock_guard lock(mine);
            recorded.on.synchronize();
        },
        "waits for a device \\(for a stream\\) while it holds a lock of the library: that of the test");
    EXPECT_DEATH(
        {
            const std::lock_guard lock(mine);
            sync_wait([]() -> task<> { co_return; }());
        },
        "waits for a device \\(for a task\\)");
}

// A worker of a CPU device resumes a coroutine, which is short of memory, while another thread waits for that worker in
// device::trim().
task<> short_of_memory(device_future<tensor<float>> first, scheduling_policy& other, inline_executor& here,
                       std::atomic<int>& step) {
    auto x = co_await std::move(first).resume_on(here);
    step = 1;
    while (step != 2) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);               // the other thread waits in trim()
    auto more = uninitialized<float>({900 * 1024});  // 3.6 MB: more than is free, and another stream's
    EXPECT_THROW(static_cast<void>(spawn(std::move(more), other)), out_of_memory);
}

TEST(held_lock, a_worker_that_is_short_of_memory_and_a_thread_that_waits_for_it_in_trim_both_continue) {
    runtime machine({.cpu_devices = 1, .cpu_workers = 1, .cpu_memory_bytes = 6u << 20, .cuda = false});
    device& cpu = machine.default_device();
    single_stream policy(cpu), other(cpu);
    inline_executor here;
    std::atomic<int> step{0};
    std::atomic<bool> gate{false};
    auto opened = spawn(host_call([&] {
                            while (!gate) std::this_thread::sleep_for(1ms);
                        }),
                        policy);
    auto first = spawn(uninitialized<float>({64}).and_then([](tensor<float> t) {
        return host_call([] {}).transform([t = std::move(t)](auto&&...) mutable { return std::move(t); });
    }),
                       policy);
    thread_pool pool(1);
    auto running = spawn(short_of_memory(std::move(first), other, here, step), pool);
    std::this_thread::sleep_for(20ms);  // the coroutine awaits `first` by now
    {  // a block that the stream still uses, after the command that resumes the coroutine
        auto big = spawn(zeros<float>({1024 * 1024}), policy);
    }
    gate = true;
    while (step != 1) std::this_thread::sleep_for(1ms);
    step = 2;
    cpu.trim();
    std::move(running).get();
    EXPECT_EQ(cpu.device_pool().usage().in_use_bytes, 0u);
}

// A launch allocates its output with the graph's lock held. It waits for memory without the lock.
TEST(held_lock, a_launch_of_a_graph_waits_for_memory_that_commands_still_use) {
    runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cpu_memory_bytes = 12u << 20, .cuda = false});
    device& cpu = machine.default_device();
    round_robin pool(cpu, 2);
    constexpr std::size_t size = (3u << 20) / sizeof(float);
    auto filled = compile(cpu, [] { return full<float>({size}, 6); });
    const auto first =
        sync(filled(), pool);  // in the memory that the graph was made with: the next launch needs its own
    cpu.trim();
    std::atomic<bool> gate{false};
    stream_lease busy(cpu);
    ticket opened;
    {
        const storage_ref held = busy->allocate(8u << 20);
        const memory_access access{held.get(), access_mode::write};
        opened = busy->host_call({"gate", {&access, 1}}, {[&] {
                                     while (!gate) std::this_thread::sleep_for(1ms);
                                 }});
    }
    std::jthread opens([&] {
        std::this_thread::sleep_for(50ms);
        gate = true;
    });
    const std::vector<float> result = sync(filled().and_then(download), pool);
    EXPECT_TRUE(gate);
    EXPECT_EQ(result.front(), 6);
    EXPECT_EQ(result.back(), 6);
    busy->wait(opened, wait_mode::block);
}

// Threads launch a graph that writes a pinned_tensor all the time, while another reads it: none of them starves.
TEST(held_lock, a_pinned_tensor_is_read_beside_threads_that_submit_commands_on_it_all_the_time) {
    runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
    device& cpu = machine.default_device();
    const pinned_tensor<float> shared(cpu, {64});
    std::atomic<bool> ends{false};
    std::vector<std::jthread> writers;
    for (int i = 0; i < 2; ++i) {
        writers.emplace_back([&] {
            round_robin pool(cpu, 1);
            while (!ends) sync(full<float>({64}, 1).and_then([&](auto x) { return shared.store(std::move(x)); }), pool);
        });
    }
    for (int i = 0; i < 50; ++i) {
        shared.write(std::vector<float>(64, 1));
        EXPECT_EQ(shared.read(), std::vector<float>(64, 1));
    }
    ends = true;
}

}  // namespace
}  // namespace sluice::held_lock_tests
