// SPDX-License-Identifier: Apache-2.0
#include "latency.hpp"

#include <algorithm>
#include <numeric>

#include "run_command.hpp"

namespace sluice::app {

latency_summary summarize(std::vector<double> seconds_of_calls) {
    latency_summary made;
    made.calls = seconds_of_calls.size();
    made.seconds = std::accumulate(seconds_of_calls.begin(), seconds_of_calls.end(), 0.0);
    if (made.seconds < least_measurable_seconds) return made;
    std::ranges::sort(seconds_of_calls);
    const auto percentile = [&](std::size_t percent, std::size_t least_calls) -> std::optional<double> {
        if (made.calls < least_calls) return {};
        return seconds_of_calls[(percent * made.calls + 99) / 100 - 1] * 1e6;
    };
    made.p50_us = percentile(50, least_calls_of_p50);
    made.p90_us = percentile(90, least_calls_of_p90);
    made.p99_us = percentile(99, least_calls_of_p99);
    made.max_us = percentile(100, least_calls_of_p50);
    return made;
}

std::optional<double> throughput_summary::calls_per_second() const {
    if (seconds < least_measurable_seconds) return {};
    return static_cast<double>(calls) / seconds;
}

}  // namespace sluice::app
