// SPDX-License-Identifier: Apache-2.0
// The time to pick the device for a batch, with work in flight on all devices.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "sluice/kernels/elementwise.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

void measure(const device_set& all) {
    constexpr std::size_t streams = 4;
    constexpr std::size_t times = 1'000'000;
    least_loaded_device pool(all, streams);
    for (int i = 0; i < 100; ++i) static_cast<void>(spawn(full<float>({std::size_t{1} << 20}, 1), pool));
    const auto start = std::chrono::steady_clock::now();
    std::size_t sum = 0;
    for (std::size_t i = 0; i < times; ++i) sum += pool.next().index();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (sum == 0) throw std::runtime_error("all on one stream");
    print({"routing",
           "{\"devices\": " + std::to_string(all.size()) + ", \"streams\": " + std::to_string(streams) + "}",
           took.count() / times,
           "ns",
           {},
           all[0].properties().name});
}

void run() {
    for (const std::size_t devices : {2, 8}) {
        runtime machine({.cpu_devices = devices, .cpu_workers = 1, .cuda = false});
        measure(device_set::of(machine, "cpu"));
    }
    runtime machine;
    if (machine.default_device().kind() == device_kind::cuda) measure(device_set::of(machine, "cuda"));
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
