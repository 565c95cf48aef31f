// SPDX-License-Identifier: Apache-2.0
// The pipeline of compiled_mlp: the network of async_mlp, compiled once and launched for each input.
#pragma once

#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "async_mlp.hpp"
#include "sluice/graph/executable_graph.hpp"

namespace compiled_mlp {

using namespace sluice;
using async_mlp::matvec_naive;
using async_mlp::relu;
using async_mlp::sgemm_naive;

// The same operation as async_mlp's, for an input that is on the device.
inline auto forward(tensor<float> input, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(zeros<float>(w0->shape()), zeros<float>(w1->shape()))
        .and_then([=, x = std::move(input)](auto hidden, auto output) mutable {
            return zip(launch(sgemm_naive{}, each_of(hidden), 1.f, std::move(x), w0, 0.f, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_naive{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}

// Runs the given number of inputs, at most `in_flight` of them at a time: each launch has memory of its own, in one
// replica of the graph. Calling the graph returns an operation like any other.
inline std::vector<std::string> run_all(std::size_t dim, std::size_t inputs, std::size_t in_flight,
                                        scheduling_policy& pool) {
    const auto [first, second] = async_mlp::upload_weights(dim, pool);
    const auto fast = compile(
        pool, {.replicas = in_flight, .name = "mlp"},
        [w0 = first, w1 = second](tensor<float> x) { return forward(std::move(x), w0, w1); },
        host_input<float>({dim, dim}));

    std::vector<std::string> lines;
    const auto describe = [&](const std::vector<float>& output) {
        char text[96];
        std::snprintf(text, sizeof(text), "input %zu: %.4g, %.4g, %.4g", lines.size(), double(output[0]),
                      double(output[1]), double(output[2]));
        lines.emplace_back(text);
    };
    std::deque<device_future<pending<std::vector<float>>>> running;
    for (std::size_t i = 0; i < inputs; ++i) {
        if (running.size() == in_flight) {
            describe(std::move(running.front()).get());
            running.pop_front();
        }
        auto input = async_mlp::make(dim * dim, [i](std::size_t at) { return float((at + 37 * i) % 13) * 0.1f; });
        running.push_back(spawn(fast(std::move(input)), pool));
    }
    for (auto& each : running) describe(std::move(each).get());
    return lines;
}

}  // namespace compiled_mlp
