// SPDX-License-Identifier: Apache-2.0
// Ten million launches of a compiled graph, back to back on two streams, each with its own input: measures whether the
// memory of the process and of the device grows. Uses the first GPU, or else a CPU device with two workers.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/sluice.hpp"
#include "support/memory.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t launches = 10'000'000;
constexpr std::size_t warm_up = 20'000;

double device_mebibytes(device& of) {
    const auto usage = of.device_pool().usage();
    return double(usage.in_use_bytes + usage.cached_bytes) / (1024.0 * 1024.0);
}

void run() {
    runtime machine({.cpu_workers = 2});
    device& on = machine.default_device();
    round_robin pool(on, 2);
    const auto copied = compile(
        pool, {.replicas = 2, .name = "soak"},
        [](shared_tensor<unsigned> x) { return copy(x).and_then([](auto y) { return copy(shared(std::move(y))); }); },
        shared_input<unsigned>({64}));
    const std::vector<shared_tensor<unsigned>> inputs{sync(share(upload(std::vector<unsigned>(64, 1))), pool),
                                                      sync(share(upload(std::vector<unsigned>(64, 2))), pool)};
    tensor<unsigned> last;
    const auto launch_all = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            execution_context context(pool.next());
            last = copied(inputs[i % inputs.size()]).submit(context);
            if (i % 1000 == 0) on.synchronize();
        }
        on.synchronize();
    };
    launch_all(warm_up);
    const double before = resident_mebibytes();
    const double device_before = device_mebibytes(on);
    const auto start = std::chrono::steady_clock::now();
    launch_all(launches);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double after = resident_mebibytes();
    const double device_after = device_mebibytes(on);
    if (sync(download(std::move(last)), pool) != std::vector<unsigned>(64, 2))
        throw std::runtime_error("wrong contents");
    const std::string name = on.properties().name;
    print({"graph_soak_rate", "{\"launches\": 10000000}", double(launches) / took.count(), "launches/s", {}, name});
    print({"graph_soak_resident_memory", "{\"launches\": 10000000}", after, "MiB", before, name});
    print({"graph_soak_device_memory", "{\"launches\": 10000000}", device_after, "MiB", device_before, name});
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
