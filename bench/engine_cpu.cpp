// SPDX-License-Identifier: Apache-2.0
// The engine on a CPU device with small batches in f32, and the bare calls of the same kernel over the same rows: loops
// of as many threads as the engine has workers, each with its half (third ...) of the rows. The engine is given
// rows in host memory, or all rows and room for all outputs.
//
//     bench_engine_cpu [SECONDS]      seconds for each size of batches, 4 unless given
//
// Two figures for each size. `engine_cpu` is microseconds for a thousand rows, where there is a worker for each core:
// with fewer the thread that waits computes as well. `engine_cpu_time` is the processor time of a thousand rows, of all
// threads of the process, in microseconds: it hardly depends on what else the machine does. The sides run alternately;
// the values are medians, and the outputs must have the same bits.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/networks.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t out = 10;

// Rows and what comes of them, in host memory.
struct host_rows {
    host_rows(std::size_t count, std::size_t width)
        : inputs(std::make_shared<std::vector<float>>(count * width)), rows(count), in(width) {
        for (std::size_t i = 0; i < inputs->size(); ++i) (*inputs)[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    }
    std::shared_ptr<std::vector<float>> inputs;
    std::size_t rows, in;
};

// The rows [first, last) in batches, on the calling thread.
void bare_calls(const packed_mlp<float>& network, const host_rows& from, std::size_t batch, std::size_t first,
                std::size_t last, float* to) {
    std::vector<float> scratch(kernels::fused_mlp_scratch_floats(batch, network.form(), kernels::fused_type::f32));
    for (; first < last; first += batch) {
        kernels::fused_mlp_on_cpu(
            {from.inputs->data() + first * from.in, to + first * out, network.image().device_data(),
             std::min(batch, last - first), network.form(), scratch.data()},
            kernels::fused_type::f32);
    }
}

void bare_threads(const packed_mlp<float>& network, const host_rows& from, std::size_t batch, std::size_t threads,
                  float* to) {
    std::vector<std::jthread> others;
    const std::size_t part = from.rows / batch / threads * batch;
    for (std::size_t i = 1; i < threads; ++i)
        others.emplace_back(
            [&, i] { bare_calls(network, from, batch, i * part, i + 1 == threads ? from.rows : (i + 1) * part, to); });
    bare_calls(network, from, batch, 0, threads == 1 ? from.rows : part, to);
}

void engine_with_host_rows(const nn::engine& engine, const host_rows& from, float* to) {
    engine.run(
        from.rows,
        [&](std::size_t first, std::size_t count) {
            return nn::host_rows(std::span<const float>(*from.inputs).subspan(first * from.in, count * from.in),
                                 from.inputs);
        },
        [&](std::size_t first, std::span<const float> outputs) { std::ranges::copy(outputs, to + first * out); });
}

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct measured {
    std::vector<double> seconds, processor;

    void add(const std::function<void()>& call) {
        const double used = processor_seconds();
        const auto start = std::chrono::steady_clock::now();
        call();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        processor.push_back(processor_seconds() - used);
    }
};

double median_of(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

void compare(const std::vector<std::size_t>& widths, std::size_t workers, std::size_t batch, double seconds) {
    runtime machine({.cpu_workers = workers, .cuda = false});
    device& cpu = machine.find("cpu:0");
    const std::size_t streams = 4 * workers;  // as the tool has
    round_robin pool(cpu, streams);
    const std::vector<mlp_layer> network = random_network(widths);
    const packed_mlp<float> packed = sync(pack_mlp<float>(network), pool);
    nn::engine engine({.batch = batch, .in_flight = 4 * streams});
    engine.add(sync(nn::make_network(nn::to_model(network)), pool), pool);
    const host_rows rows(std::max<std::size_t>(4096, (std::size_t{1} << 22) / widths[0] / widths[1] * 64), widths[0]);
    std::string layers;
    for (const std::size_t width : widths) layers += (layers.empty() ? "" : "-") + std::to_string(width);
    std::vector<float> ours(rows.rows * out), expected(rows.rows * out);
    const std::vector<std::pair<std::string, std::function<void()>>> ways{
        {"bare calls", [&] { bare_threads(packed, rows, batch, workers, expected.data()); }},
        {"memory, into memory", [&] { engine.run(*rows.inputs, ours); }},
        {"memory", [&] { engine_with_host_rows(engine, rows, ours.data()); }},
    };
    for (const auto& [name, way] : ways) {
        std::ranges::fill(ours, -1.0f);
        way();
        if (&way != &ways.front().second && std::memcmp(ours.data(), expected.data(), ours.size() * sizeof(float)) != 0)
            throw std::runtime_error(name + ": other outputs than the bare calls");
    }
    std::vector<measured> all(ways.size());
    const auto begin = std::chrono::steady_clock::now();
    while (all[0].seconds.size() < 5 ||
           std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds))
        for (std::size_t i = 0; i < ways.size(); ++i) all[i].add(ways[i].second);
    const double scale = 1e9 / static_cast<double>(rows.rows);
    for (std::size_t i = 1; i < ways.size(); ++i) {
        const std::string params = "{\"network\": \"" + layers + "\", \"batch\": " + std::to_string(batch) +
                                   ", \"workers\": " + std::to_string(workers) + ", \"rows from\": \"" + ways[i].first +
                                   "\", \"baseline\": \"bare calls\"}";
        const std::string hardware =
            cpu.properties().name + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
        if (workers >= std::thread::hardware_concurrency())
            print({"engine_cpu", params, scale * median_of(all[i].seconds), "us", scale * median_of(all[0].seconds),
                   hardware});
        print({"engine_cpu_time", params, scale * median_of(all[i].processor), "us",
               scale * median_of(all[0].processor), hardware});
    }
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** words) try {
    const double seconds = count > 1 ? std::stod(words[1]) : 4;
    for (const std::size_t workers : {1u, std::max(2u, std::thread::hardware_concurrency())}) {
        for (const std::size_t batch : {1, 8, 64, 1024})
            sluice::bench::compare({64, 64, 64, 10}, workers, batch, seconds);
        for (const std::size_t batch : {1, 8}) sluice::bench::compare({784, 512, 512, 10}, workers, batch, seconds);
    }
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_engine_cpu: %s\n", failure.what());
    return 1;
}
