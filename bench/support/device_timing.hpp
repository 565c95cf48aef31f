// SPDX-License-Identifier: Apache-2.0
// Medians of device time, from events around several calls in a row, or from one call's share of a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "support/by_hand.hpp"

namespace sluice::bench {

struct destroy_graph {
    void operator()(cudaGraphExec_t graph) const noexcept { static_cast<void>(cudaGraphExecDestroy(graph)); }
};
using graph_by_hand = std::unique_ptr<CUgraphExec_st, destroy_graph>;

inline event_by_hand make_timing_event() {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made));
    return event_by_hand(made);
}

inline double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Microseconds that one call takes on the device, for each version; the versions are timed alternately.
inline std::vector<double> device_medians(cudaStream_t on, const std::vector<std::function<void()>>& versions,
                                          int calls, int rounds = 9) {
    const auto from = make_timing_event(), to = make_timing_event();
    std::vector<std::vector<double>> times(versions.size());
    for (int round = -1; round < rounds; ++round) {  // the first round warms up
        for (std::size_t i = 0; i < versions.size(); ++i) {
            versions[i]();  // warm-up: the previous version has left its data in the caches
            check(cudaEventRecord(from.get(), on));
            for (int call = 0; call < calls; ++call) versions[i]();
            check(cudaEventRecord(to.get(), on));
            check(cudaEventSynchronize(to.get()));
            float milliseconds = 0;
            check(cudaEventElapsedTime(&milliseconds, from.get(), to.get()));
            if (round >= 0) times[i].push_back(1e3 * milliseconds / calls);
        }
    }
    std::vector<double> result;
    for (auto& each : times) result.push_back(median_of(std::move(each)));
    return result;
}

// A graph of `calls` calls, one after the other.
inline graph_by_hand graph_of(cudaStream_t on, const std::function<void()>& call, int calls) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; ++i) call();
    check(cudaStreamEndCapture(on, &graph));
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, graph, 0));
    check(cudaGraphDestroy(graph));
    return graph_by_hand(made);
}

// Microseconds for one call inside a graph of `calls`.
inline double median_in_graph(cudaStream_t on, const std::function<void()>& call, int calls) {
    call();  // loads the kernel
    const graph_by_hand graph = graph_of(on, call, calls);
    return device_medians(on, {[&] { check(cudaGraphLaunch(graph.get(), on)); }}, 10).front() / calls;
}

}  // namespace sluice::bench
