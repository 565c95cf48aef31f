// SPDX-License-Identifier: Apache-2.0
// Submits n tiny kernels and waits for them, repeatedly: by hand with cudaStreamSynchronize; with sync(); in a
// coroutine that resumes on the runtime's thread; in a coroutine that resumes on a thread pool.
#include "await_latency.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/thread_pool.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t rounds_at_a_time = 200;
constexpr std::size_t turns = 15;  // the first one warms up

using clock = std::chrono::steady_clock;

double since(clock::time_point start) { return microseconds(clock::now() - start).count(); }

struct setting {
    scheduling_policy& pool;
    std::size_t n;
    tensor<unsigned> x;
    std::vector<double> times = {};
};

task<> await_rounds(setting& in) {
    for (std::size_t round = 0; round < rounds_at_a_time; ++round) {
        const auto start = clock::now();
        auto future = spawn(ticks(std::move(in.x), in.n), in.pool);
        in.x = co_await std::move(future);
        in.times.push_back(since(start));
    }
}

task<> await_rounds_on(setting& in, executor& target) {
    for (std::size_t round = 0; round < rounds_at_a_time; ++round) {
        const auto start = clock::now();
        auto future = spawn(ticks(std::move(in.x), in.n), in.pool);
        auto resumed = std::move(future).resume_on(target);
        in.x = co_await std::move(resumed);
        in.times.push_back(since(start));
    }
}

void wait_rounds(setting& in) {
    for (std::size_t round = 0; round < rounds_at_a_time; ++round) {
        const auto start = clock::now();
        in.x = sync(ticks(std::move(in.x), in.n), in.pool);
        in.times.push_back(since(start));
    }
}

void rounds_by_hand(ticks_by_hand& hand, std::size_t n, std::vector<double>& times) {
    for (std::size_t round = 0; round < rounds_at_a_time; ++round) {
        const auto start = clock::now();
        hand.run(n);
        times.push_back(since(start));
    }
}

double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

void verify(setting& in) {
    const std::vector<unsigned> values = sync(download(std::move(in.x)), in.pool);
    const auto expected = static_cast<unsigned>(turns * rounds_at_a_time * in.n);
    if (std::ranges::any_of(values, [&](unsigned each) { return each != expected; }))
        throw std::runtime_error("wrong contents");
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream pool(gpu);
    thread_pool workers(1);
    ticks_by_hand hand;
    const std::string name = gpu.properties().name;
    for (const std::size_t n : {1, 10}) {
        std::vector<double> hand_times;
        std::array<setting, 3> ours{setting{pool, n, sync(zeros<unsigned>({tick_elements}), pool)},
                                    setting{pool, n, sync(zeros<unsigned>({tick_elements}), pool)},
                                    setting{pool, n, sync(zeros<unsigned>({tick_elements}), pool)}};
        for (std::size_t turn = 0; turn < turns; ++turn) {
            if (turn == 1) {
                hand_times.clear();
                for (setting& each : ours) each.times.clear();
            }
            rounds_by_hand(hand, n, hand_times);
            wait_rounds(ours[0]);
            sync_wait(await_rounds(ours[1]));
            sync_wait(await_rounds_on(ours[2], workers));
        }
        for (setting& each : ours) verify(each);
        const double by_hand = median(hand_times);
        const double waited = median(ours[0].times);
        const double awaited = median(ours[1].times);
        const double on_pool = median(ours[2].times);
        const std::string axes = "{\"n\": " + std::to_string(n) + ", \"baseline\": ";
        const std::string hand_axes = axes + "\"by hand\", \"form\": ";
        print({"await_latency", hand_axes + "\"sync\"}", waited, "us", by_hand, name});
        print({"await_latency", hand_axes + "\"awaited\"}", awaited, "us", by_hand, name});
        print({"await_latency", hand_axes + "\"awaited, resumed on a pool\"}", on_pool, "us", by_hand, name});
        print({"await_latency", axes + "\"sync\", \"form\": \"awaited\"}", awaited, "us", waited, name});
        print({"await_latency", axes + "\"sync\", \"form\": \"awaited, resumed on a pool\"}", on_pool, "us", waited,
               name});
    }
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
