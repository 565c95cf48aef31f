// SPDX-License-Identifier: Apache-2.0
// A perceptron on a CPU device with its batches side by side: `calls` has as many threads as there are cores, each of
// which calls the network at once (network::operator()) on its own batch; `engine` is nn::engine with a worker for each
// core, over rows in host memory.
//
//     bench_network_throughput MODEL ROWS SECONDS PRECISION WIDTH WIDTH...
//
// MODEL is an ONNX file of a perceptron with these widths; the engine has random weights. ROWS are those of a batch.
// Prints {"calls": rows per second, "engine": ...} in f32, and {"calls": ..., "how": "AMX-BF16"} in another precision:
// the engine's plans are in f32. network_throughput.py calls it in turn with other runtimes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "sluice/nn/engine.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/networks.hpp"

namespace {

using namespace sluice;
using clock_type = std::chrono::steady_clock;

std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<float>(i % 17) * 0.1f;
    return made;
}

// The cores that the program may use.
std::vector<std::size_t> usable_cores() {
    cpu_set_t all;
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof(all), &all) != 0) throw std::runtime_error("the program's cores are not known");
    std::vector<std::size_t> made;
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &all)) made.push_back(core);
    return made;
}

// Each thread has a core, as the processes of the others have.
void stay_on(std::size_t core) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    if (sched_setaffinity(0, sizeof(only), &only) != 0) throw std::runtime_error("no thread can stay on a core here");
}

// The rates of the threads are added up, each up to the end of its last call, as those of the other runtimes'
// processes.
double rows_by_calls(const nn::network& network, std::size_t in, std::size_t out, std::size_t rows, double seconds) {
    const std::vector<std::size_t> cores = usable_cores();
    std::atomic<bool> is_over{false};
    std::atomic<double> rate{0};
    std::latch ready(static_cast<std::ptrdiff_t>(cores.size()) + 1);
    std::vector<std::jthread> all;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        all.emplace_back([&, i] {
            stay_on(cores[i]);
            const std::vector<float> inputs = numbers(rows * in);
            std::vector<float> outputs(rows * out);
            const std::vector<nn::input_view> from{nn::input_view(inputs, {rows, in})};
            const std::vector<nn::output_view> to{nn::output_view(outputs, {rows, out})};
            for (int warm = 0; warm < 10; ++warm) network(from, to);
            ready.arrive_and_wait();
            const auto begin = clock_type::now();
            std::size_t calls = 0;
            for (; !is_over.load(std::memory_order_relaxed); ++calls) network(from, to);
            rate +=
                static_cast<double>(calls * rows) / std::chrono::duration<double>(clock_type::now() - begin).count();
        });
    }
    ready.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    is_over = true;
    all.clear();
    return rate;
}

double rows_by_engine(device& cpu, const std::vector<std::size_t>& widths, std::size_t batch, double seconds) {
    const std::size_t streams = 4 * std::max(1u, std::thread::hardware_concurrency());  // as the tool has
    round_robin pool(cpu, streams);
    nn::engine engine({.batch = batch, .in_flight = 4 * streams});
    engine.add(sync(nn::make_network(nn::to_model(bench::random_network(widths))), pool), pool);
    // 16 MB of inputs, or 64 batches.
    const std::size_t rows = std::max<std::size_t>(64, (std::size_t{4} << 20) / widths.front() / batch) * batch;
    const std::vector<float> inputs = numbers(rows * widths.front());
    std::vector<float> outputs(rows * widths.back());
    engine.run(inputs, outputs);
    std::size_t done = 0;
    const auto begin = clock_type::now();
    std::chrono::duration<double> passed{};
    do {
        engine.run(inputs, outputs);
        done += rows;
        passed = clock_type::now() - begin;
    } while (passed.count() < seconds);
    return static_cast<double>(done) / passed.count();
}

}  // namespace

int main(int count, char** words) try {
    if (count < 7)
        throw std::runtime_error("usage: bench_network_throughput MODEL ROWS SECONDS f32|bf16|f16|int8 WIDTH WIDTH...");
    const std::size_t rows = std::stoul(words[2]);
    const double seconds = std::stod(words[3]);
    const auto precision = nn::precision_from_string(words[4]);
    if (!precision) throw std::runtime_error("the precision is f32, bf16, f16 or int8");
    std::vector<std::size_t> widths;
    for (int i = 5; i < count; ++i) widths.push_back(std::stoul(words[i]));
    runtime machine({.cuda = false});
    device& cpu = machine.find("cpu:0");
    double calls = 0;
    {
        round_robin pool(cpu, 1);
        const nn::network network = sync(nn::make_network(nn::load_onnx(words[1]), {.precision = *precision}), pool);
        calls = rows_by_calls(network, widths.front(), widths.back(), rows, seconds);
        if (*precision != nn::precision::f32) {
            std::printf("{\"calls\": %.0f, \"how\": \"%s\"}\n", calls, network.rounding().support.how.c_str());
            return 0;
        }
    }
    std::printf("{\"calls\": %.0f, \"engine\": %.0f}\n", calls, rows_by_engine(cpu, widths, rows, seconds));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_network_throughput: %s\n", failure.what());
    return 1;
}
