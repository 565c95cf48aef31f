// SPDX-License-Identifier: Apache-2.0
// Steps of a session: an ONNX network with memory, one step at a time, from numbers of the host to numbers of the host.
//
//     bench_session_steps MODEL [DEVICE]
//
// Each input that is no state has its named lengths 1. Two sessions of one network take turns, 200 steps each, 20
// times: one may make graphs, and one may not (kept_limit of 0 bytes). Prints one line of JSON: the median and the 99th
// percentile of a step of each in microseconds, and the largest difference of their first outputs.
// torch_steps.py writes networks, and does the same with PyTorch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "sluice/nn/kept_limit.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/sluice.hpp"

namespace {

using namespace sluice;
using clock_type = std::chrono::steady_clock;

struct stepped {
    nn::session session;
    std::vector<double> times = {};
};

double quantile(std::vector<double>& of, double share) {
    std::sort(of.begin(), of.end());
    return of[static_cast<std::size_t>(share * static_cast<double>(of.size() - 1))];
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "bench_session_steps MODEL [DEVICE]\n"), 2;
    runtime machine;
    single_stream on(machine.find(count > 2 ? arguments[2] : "auto"));
    const nn::network network = sync(nn::make_network(nn::load_onnx(arguments[1])), on);
    stepped graph{nn::session(network)};
    const nn::kept_limit none(0);
    stepped eager{nn::session(network)};

    std::vector<std::vector<float>> numbers;
    std::vector<nn::input_view> inputs;
    for (const nn::value_info& each : graph.session.inputs()) {
        std::vector<std::size_t> shape;
        std::size_t elements = 1;
        for (const nn::dimension& length : *each.shape) shape.push_back(length.length.value_or(1));
        for (const std::size_t length : shape) elements *= length;
        std::vector<float>& its = numbers.emplace_back(elements);
        for (std::size_t i = 0; i < elements; ++i) its[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
        inputs.emplace_back(std::span<const float>(its), shape);
    }
    for (int round = 0; round < 20; ++round) {
        for (stepped* const each : {&graph, &eager}) {
            for (int i = 0; i < 200; ++i) {
                const auto start = clock_type::now();
                each->session.step(inputs);
                each->times.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - start).count());
            }
        }
    }
    double difference = 0;
    const auto one = graph.session.output<float>(0), other = eager.session.output<float>(0);
    for (std::size_t i = 0; i < one.size(); ++i)
        difference = std::max(difference, std::abs(double{one[i]} - double{other[i]}));
    std::printf(
        "{\"model\": \"%s\", \"device\": \"%s\", \"graph_us\": %.2f, \"graph_p99_us\": %.2f, \"eager_us\": %.2f, "
        "\"eager_p99_us\": %.2f, \"largest_difference\": %g, \"first\": %.9g}\n",
        arguments[1], on.next().owner().properties().name.c_str(), quantile(graph.times, 0.5),
        quantile(graph.times, 0.99), quantile(eager.times, 0.5), quantile(eager.times, 0.99), difference,
        double{one[0]});
}
