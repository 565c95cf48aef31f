// SPDX-License-Identifier: Apache-2.0
// One call of an ONNX network on a CPU device, from inputs in host memory to outputs there: by run, and compiled.
//
//     bench_network_cpu MODEL ROWS SECONDS      prints {"run": microseconds, "compiled": microseconds}: medians
//
// network_peers.py calls it in turn with other runtimes. Dimensions without a length are ROWS.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/timing.hpp"

namespace {

using namespace sluice;

// The same numbers as network_peers.py gives the others.
std::vector<nn::any_tensor> inputs_of(const nn::network& network, std::size_t rows) {
    std::vector<nn::any_tensor> made;
    for (const nn::value_info& each : network.inputs()) {
        if (!each.shape || each.type != io::dtype::f32)
            throw std::runtime_error("an input is not f32 of a known shape");
        std::vector<std::size_t> lengths;
        std::size_t size = 1;
        for (const nn::dimension& one : *each.shape) size *= lengths.emplace_back(one.length.value_or(rows));
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 17) * 0.1f;
        made.emplace_back(values, lengths);
    }
    return made;
}

double median_for(double seconds, const std::function<void()>& call) {
    for (int i = 0; i < 3; ++i) call();
    std::vector<double> times;
    const auto begin = std::chrono::steady_clock::now();
    while (times.size() < 5 || std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds)) {
        const auto start = std::chrono::steady_clock::now();
        call();
        times.push_back(bench::microseconds(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
}

}  // namespace

int main(int count, char** words) try {
    if (count != 4) throw std::runtime_error("usage: bench_network_cpu MODEL ROWS SECONDS");
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu:0"), 1);
    const nn::network network = sync(nn::make_network(nn::load_onnx(words[1])), pool);
    const auto inputs = inputs_of(network, std::stoul(words[2]));
    const double seconds = std::stod(words[3]) / 2;
    const double run = median_for(seconds, [&] { sync(network.run(inputs), pool); });
    const auto fast = compile(pool, [&] { return network.run(inputs); });
    const double compiled = median_for(seconds, [&] { sync(fast(), pool); });
    std::printf("{\"run\": %.3f, \"compiled\": %.3f}\n", run, compiled);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_network_cpu: %s\n", failure.what());
    return 1;
}
