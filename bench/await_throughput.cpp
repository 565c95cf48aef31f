// SPDX-License-Identifier: Apache-2.0
// A million awaits, a thousand of them in flight, of a launch that does almost nothing, on a CPU device with two
// workers: awaits per second, and whether the process's memory stays constant.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/sluice.hpp"
#include "support/memory.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t in_flight = 1000;
constexpr std::size_t awaits = 1'000'000;

struct touch {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<unsigned> x) const {
        if (unsigned* const element = x.at(at)) *element += 1;
    }
};

// One of the thousand coroutines. `where` null: it resumes on the runtime's thread.
task<> await_often(scheduling_policy& pool, tensor<unsigned>& x, std::size_t times, executor* target) {
    for (std::size_t i = 0; i < times; ++i) {
        auto future = spawn(launch(touch{}, each_of(x), std::move(x)), pool);
        if (target != nullptr) {
            auto resumed = std::move(future).resume_on(*target);
            x = co_await std::move(resumed);
        } else {
            x = co_await std::move(future);
        }
    }
}

void await_all(scheduling_policy& pool, std::vector<tensor<unsigned>>& data, std::size_t times, executor* target) {
    std::vector<task<>> all;
    for (tensor<unsigned>& each : data) all.push_back(await_often(pool, each, times, target));
    auto together = when_all(std::move(all));
    sync_wait(std::move(together));
}

void measure(std::size_t streams, bool on_a_pool) {
    runtime machine({.cpu_devices = 1, .cpu_workers = 2, .cuda = false});
    device& cpu = machine.default_device();
    round_robin pool(cpu, streams);
    thread_pool one(1);
    executor* const target = on_a_pool ? &one : nullptr;
    std::vector<tensor<unsigned>> data;
    for (std::size_t i = 0; i < in_flight; ++i) data.push_back(sync(zeros<unsigned>({1}), pool));

    constexpr std::size_t warm_up = 50;
    await_all(pool, data, warm_up, target);
    const double before = resident_mebibytes();
    const auto start = std::chrono::steady_clock::now();
    await_all(pool, data, awaits / in_flight, target);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double after = resident_mebibytes();

    for (tensor<unsigned>& each : data) {
        if (sync(download(std::move(each)), pool) != std::vector<unsigned>{warm_up + awaits / in_flight})
            throw std::runtime_error("wrong contents");
    }
    const std::string name =
        cpu.properties().name + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
    const std::string axes = "{\"in_flight\": 1000, \"workers\": 2, \"streams\": " + std::to_string(streams) +
                             ", \"resumed_on\": \"" + (on_a_pool ? "thread pool" : "completion thread") + "\"}";
    print({"await_throughput", axes, static_cast<double>(awaits) / took.count(), "awaits/s", std::nullopt, name});
    print({"await_resident_memory", axes, after, "MiB", before, name});
}

}  // namespace
}  // namespace sluice::bench

int main() try {
    for (const std::size_t streams : {1, 2, 8, 64}) sluice::bench::measure(streams, false);
    sluice::bench::measure(2, true);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
