// SPDX-License-Identifier: Apache-2.0
// Medians of host time of several versions, which are timed alternately so that a drift of the machine affects all
// alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace sluice::bench {

using microseconds = std::chrono::duration<double, std::micro>;

// The median of each version's time for one call, in microseconds.
inline std::vector<double> medians(const std::vector<std::function<void()>>& versions, std::size_t rounds,
                                   std::size_t warm_up = 20) {
    std::vector<std::vector<double>> times(versions.size());
    for (std::size_t round = 0; round < warm_up + rounds; ++round) {
        for (std::size_t i = 0; i < versions.size(); ++i) {
            const auto start = std::chrono::steady_clock::now();
            versions[i]();
            const microseconds took = std::chrono::steady_clock::now() - start;
            if (round >= warm_up) times[i].push_back(took.count());
        }
    }
    std::vector<double> result;
    for (auto& each : times) {
        const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
        std::nth_element(each.begin(), middle, each.end());
        result.push_back(*middle);
    }
    return result;
}

}  // namespace sluice::bench
