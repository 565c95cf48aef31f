// SPDX-License-Identifier: Apache-2.0
// The two exercises of examples/data_parallel_mlp: three kernels in one, and copies that overlap with computing; what
// each saves in memory and in time. On the first device.
#include <cstdio>
#include <exception>
#include <string>

#include "examples/data_parallel_mlp.hpp"
#include "sluice/async/sync_wait.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

using namespace data_parallel_mlp;

constexpr std::size_t dim = 512;
constexpr std::size_t batches = 16;

void run() {
    runtime machine({.cpu_workers = 2});
    device& on = machine.default_device();
    const device_set one{on};
    round_robin_devices pool(one, 4);
    const weights with = sync_wait(make_weights(dim, one, pool)).front();
    const std::string size = "\"dim\": " + std::to_string(dim);
    const std::string name = on.properties().name;
    print({"mlp_scratch", "{\"kernels\": 1, " + size + ", \"baseline\": \"three kernels\"}",
           double(scratch_bytes(dim, with, pool, one_kernel{})), "bytes",
           double(scratch_bytes(dim, with, pool, three_kernels{})), name});

    const shared_tensor<float> batch(sync(make_batch(dim, 0), pool));
    const auto run_on = [&](const auto& network) {
        sync(copy(batch).and_then([&](auto x) { return network(std::move(x), with); }), pool);
    };
    const auto kernels = medians({[&] { run_on(one_kernel{}); }, [&] { run_on(three_kernels{}); }}, 30, 3);
    print({"mlp_batch", "{\"kernels\": 1, " + size + ", \"baseline\": \"three kernels\"}", kernels[0], "us", kernels[1],
           name});

    // Batches from the host and back: on one stream, each waited for, and on four, all in flight.
    const std::vector<float> rows(dim * dim, 0.5f);
    single_stream alone(on);
    const auto described = [&] {
        return upload(rows, {dim, dim})
            .and_then([&](auto x) { return forward(std::move(x), with); })
            .and_then(download);
    };
    const auto moved = medians({[&] {
                                    std::vector<device_future<pending<std::vector<float>>>> running;
                                    for (std::size_t i = 0; i < batches; ++i)
                                        running.push_back(spawn(described(), pool));
                                    for (auto& each : running) static_cast<void>(std::move(each).get());
                                },
                                [&] {
                                    for (std::size_t i = 0; i < batches; ++i)
                                        static_cast<void>(sync(described(), alone));
                                }},
                               20, 3);
    print({"mlp_overlapped",
           "{\"batches\": " + std::to_string(batches) + ", \"streams\": 4, " + size +
               ", \"baseline\": \"one stream, each waited for\"}",
           moved[0], "us", moved[1], name});
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
