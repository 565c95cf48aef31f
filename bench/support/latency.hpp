// SPDX-License-Identifier: Apache-2.0
// How long requests take, one after the other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "support/timing.hpp"

namespace sluice::bench {

struct latency {
    double median, late, latest;  // microseconds: of half, of 99 in 100 and of 999 in 1000 of the requests at most
};

// Of `count` requests, at least 1000, after 100 that do not count.
template <typename Function>
latency measure_latency(Function request, std::size_t count) {
    std::vector<double> times;
    times.reserve(count);
    for (std::size_t i = 0; i < 100; ++i) request();
    for (std::size_t i = 0; i < count; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        request();
        times.push_back(microseconds(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(times);
    return {times[count / 2], times[count / 100 * 99], times[count / 1000 * 999]};
}

}  // namespace sluice::bench
