// SPDX-License-Identifier: Apache-2.0
// Batches of the network of examples/async_mlp, with small sizes.
#pragma once

#include <vector>

#include "examples/async_mlp.hpp"
#include "sluice/sluice.hpp"

namespace sluice::sim {

using async_mlp::forward;  // seven commands: an upload, two fills, three launches and a download

inline constexpr std::size_t dim = 4;

inline std::vector<float> ramp(std::size_t size, float start = 0) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = start + static_cast<float>(i % 13) * 0.25f - 1;
    return values;
}

// Spawns the batches one after the other, then gets the results in that order.
inline std::vector<std::vector<float>> run_batches(scheduling_policy& pool, const shared_tensor<float>& w0,
                                                   const shared_tensor<float>& w1, std::size_t count) {
    std::vector<decltype(spawn(forward({}, w0, w1), pool))> running;
    running.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        running.push_back(spawn(forward(ramp(dim * dim, static_cast<float>(i)), w0, w1), pool));
    std::vector<std::vector<float>> results;
    results.reserve(count);
    for (auto& each : running) results.push_back(std::move(each).get());
    return results;
}

}  // namespace sluice::sim
