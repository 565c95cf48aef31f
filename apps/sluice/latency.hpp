// SPDX-License-Identifier: Apache-2.0
// How long calls take, from many of them; and which of the figures the measurement is long enough for.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::app {

// There is a percentile when at least five calls are slower, so of 10, 50 and 500 calls; and no figure of less than
// least_measurable_seconds in all.
inline constexpr std::size_t least_calls_of_p50 = 10, least_calls_of_p90 = 50, least_calls_of_p99 = 500;

struct latency_summary {
    std::size_t calls = 0;
    double seconds = 0;  // of all
    std::optional<double> p50_us, p90_us, p99_us, max_us;
};

// Of the seconds of each call; puts them in order. A percentile is a call's time, without interpolation: nearest rank.
latency_summary summarize(std::vector<double> seconds_of_calls);

// Calls side by side.
struct throughput_summary {
    std::size_t calls = 0;
    double seconds = 0;
    std::size_t in_flight = 0;

    // Empty where the time is too short.
    std::optional<double> calls_per_second() const;
};

}  // namespace sluice::app
