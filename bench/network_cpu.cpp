// SPDX-License-Identifier: Apache-2.0
// One call of an ONNX network on a CPU device, from inputs in host memory to outputs there: by run, compiled, at once
// (network::operator()), and prepared.
//
//     bench_network_cpu MODEL ROWS SECONDS [PRECISION]    prints {"run": microseconds, "compiled": ..., "direct": ...,
//                                                         "prepared": ..., "how": "AMX-BF16"}: medians, and what
//                                                         multiplies; null: the network cannot be prepared
//
// network_peers.py calls it in turn with other runtimes. Dimensions without a length are ROWS.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
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

// A call, into room for its outputs.
auto direct_call(const nn::network& network, const std::vector<nn::any_tensor>& inputs) {
    std::vector<nn::input_view> from;
    for (const nn::any_tensor& each : inputs) from.emplace_back(each.type(), each.bytes().data(), each.shape());
    std::vector<std::vector<std::byte>> room;
    std::vector<nn::output_view> to;
    for (const nn::any_tensor& each : network.infer(inputs)) {
        room.emplace_back(each.size_bytes());
        to.emplace_back(each.type(), room.back().data(), each.shape());
    }
    return [&network, from, room = std::move(room), to] { network(from, to); };
}

// A run in place, with the same numbers.
auto prepared_call(const nn::network& network, const std::vector<nn::any_tensor>& inputs) {
    std::vector<nn::input_shape> shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) shapes.push_back({network.inputs()[i].name, inputs[i].shape()});
    auto fast = std::make_shared<nn::prepared>(network.prepare(shapes));
    for (std::size_t i = 0; i < inputs.size(); ++i)
        std::ranges::copy(inputs[i].values<float>(), fast->input<float>(i).begin());
    return [fast] { fast->run(); };
}

// Calls of less than a microsecond are timed several at a time, since reading the clock takes a part of that.
double median_for(double seconds, const std::function<void()>& call) {
    const auto time_of = [&](int calls) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) call();
        return bench::microseconds(std::chrono::steady_clock::now() - start).count() / calls;
    };
    time_of(3);
    const int together = time_of(10) < 2 ? 20 : 1;
    std::vector<double> times;
    const auto begin = std::chrono::steady_clock::now();
    while (times.size() < 5 || std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds))
        times.push_back(time_of(together));
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
}

}  // namespace

int main(int count, char** words) try {
    if (count != 4 && count != 5)
        throw std::runtime_error("usage: bench_network_cpu MODEL ROWS SECONDS [f32|bf16|f16|int8]");
    const auto precision = nn::precision_from_string(count == 5 ? words[4] : "f32");
    if (!precision) throw std::runtime_error("the precision is f32, bf16, f16 or int8");
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu:0"), 1);
    const nn::network network = sync(nn::make_network(nn::load_onnx(words[1]), {.precision = *precision}), pool);
    const auto inputs = inputs_of(network, std::stoul(words[2]));
    const double seconds = std::stod(words[3]) / 4;
    const double run = median_for(seconds, [&] { sync(network.run(inputs), pool); });
    const auto fast = compile(pool, [&] { return network.run(inputs); });
    const double compiled = median_for(seconds, [&] { sync(fast(), pool); });
    const double direct = median_for(seconds, direct_call(network, inputs));
    std::string prepared = "null";  // numbers decide about shapes
    try {
        prepared = std::to_string(median_for(seconds, prepared_call(network, inputs)));
    } catch (const error& refusal) {
        if (refusal.code() != errc::unsupported) throw;
    }
    std::printf("{\"run\": %.3f, \"compiled\": %.3f, \"direct\": %.3f, \"prepared\": %s, \"how\": \"%s\"}\n", run,
                compiled, direct, prepared.c_str(), network.rounding().support.how.c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_network_cpu: %s\n", failure.what());
    return 1;
}
