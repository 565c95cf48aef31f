// SPDX-License-Identifier: Apache-2.0
// The number of schedules that the simulator explores per second of one core's time. (It runs on one thread and never
// waits, so its processor time is its time on an otherwise idle core.)
//
//     bench_explore                                   four batches of a small network
//     bench_explore --schedules N [--faults]          the examples, N schedules of each, one line each
//
// The second form also is the long search for faults: it fails when it finds one. With --faults a device breaks down in
// each schedule.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <stdexcept>

#include "sim/examples.hpp"
#include "sim/pipelines.hpp"
#include "support/result.hpp"

namespace {

using namespace sluice;

constexpr const char* machine_name = "host CPU, one core";

double seconds_since(std::clock_t start) { return double(std::clock() - start) / CLOCKS_PER_SEC; }

void measure_batches() {
    sim::simulator machine;
    auto [first, second] =
        sync(zip(upload(sim::ramp(sim::dim * sim::dim), {sim::dim, sim::dim}), upload(sim::ramp(sim::dim), {sim::dim})),
             machine.pool());
    const shared_tensor<float> w0(std::move(first)), w1(std::move(second));
    const auto run = [&](scheduling_policy& pool) { return sim::run_batches(pool, w0, w1, 4); };
    explore(machine, run, {.schedules = 1'000}).require_clean();

    // The best of several: other programs can only slow it down.
    double best = 0;
    for (std::uint64_t round = 0; round < 7; ++round) {
        constexpr std::uint64_t schedules = 20'000;
        const std::clock_t start = std::clock();
        explore(machine, run, {.schedules = schedules, .seed = 1 + round * schedules}).require_clean();
        best = std::max(best, double(schedules) / seconds_since(start));
    }
    bench::print({"explore", "{\"batches\": 4, \"streams\": 4, \"commands\": 28, \"dim\": 4}", best, "schedules/s",
                  std::nullopt, machine_name});
}

// Explores one example; returns whether nothing was found.
bool search(const sim::example& each, const sim::exploration_options& options) {
    const std::clock_t start = std::clock();
    const sim::exploration made = each.explore(options);
    const double seconds = seconds_since(start);
    bench::print({"explore_example",
                  std::string("{\"example\": \"") + each.name + "\", \"schedules\": " + std::to_string(made.schedules) +
                      ", \"commands\": " + std::to_string(made.commands) + ", \"device_faults\": " +
                      std::to_string(made.faults) + ", \"findings\": " + (made.is_clean() ? "0" : "1") + "}",
                  double(made.schedules) / seconds, "schedules/s", std::nullopt, machine_name});
    if (!made.is_clean()) std::cerr << each.name << ": " << *made.found << '\n';
    return made.is_clean();
}

int run(int count, char** arguments) {
    if (count == 1) {
        measure_batches();
        return 0;
    }
    sim::exploration_options options;
    const bool has_faults = count == 4 && std::strcmp(arguments[3], "--faults") == 0;
    if (std::strcmp(arguments[1], "--schedules") != 0 || count < 3 || (count > 3 && !has_faults))
        throw std::invalid_argument("usage: bench_explore [--schedules N [--faults]]");
    options.schedules = std::stoull(arguments[2]);
    options.with_device_faults = has_faults;
    bool is_clean = true;
    for (const sim::example& each : sim::examples) is_clean = search(each, options) && is_clean;
    return is_clean ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try { return run(count, arguments); } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
}
