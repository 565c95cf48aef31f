// SPDX-License-Identifier: Apache-2.0
// The choice among kernels, and how they are measured: in turns, each many times, by the device's clock.
#include "sluice/kernels/one_of.hpp"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/event.hpp"
#include "sluice/runtime/scheduling_policy.hpp"

namespace sluice::detail {
namespace {

constexpr double worth_it = 0.97;  // of the first kernel's time
constexpr int rounds = 5;
constexpr double turn_microseconds = 2'000;
constexpr double most_launches = 200;  // in a turn

// Microseconds of one launch.
double time(stream on, const std::function<void(stream)>& run, int launches) {
    event begin = event::record(on);
    for (int i = 0; i < launches; ++i) run(on);
    event end = event::record(on);
    return elapsed(begin, end).count() / launches;
}

double median(std::vector<double> of) {
    const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    std::nth_element(of.begin(), middle, of.end());
    return *middle;
}

}  // namespace

std::size_t chosen_position(stream on, const tuning_table* table, std::span<const std::string_view> kernels,
                            std::span<const shape> shapes) {
    if (table == nullptr) return 0;
    return table->find(on.owner().properties().name, kernels, shapes).value_or(0);
}

tuning_measurement measure(device& on, tuning_table* table, std::span<const std::string_view> kernels,
                           std::span<const shape> shapes, std::span<const std::function<void(stream)>> runs) {
    if (table == nullptr)
        throw error(errc::invalid_argument, "the kernels have no table to add to: one_of<...>(table)",
                    {"tune", on.name()});
    single_stream pool(on);
    const stream home = pool.next();
    std::vector<int> launches;
    for (const auto& run : runs) {
        time(home, run, 1);  // loads what has to be loaded
        const double once = time(home, run, 1);
        launches.push_back(static_cast<int>(std::clamp(turn_microseconds / std::max(once, 1e-3), 1.0, most_launches)));
    }
    std::vector<std::vector<double>> times(runs.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < runs.size(); ++i) {
            time(home, runs[i], (launches[i] + 1) / 2);  // warm up: the previous kernel left its data
            times[i].push_back(time(home, runs[i], launches[i]));
        }
    }
    std::vector<double> medians;
    medians.reserve(times.size());
    for (const auto& each : times) medians.push_back(median(each));
    const auto best = std::min_element(medians.begin(), medians.end());
    const bool stays = *best >= worth_it * medians.front();
    tuning_measurement made;
    made.device = on.properties().name;
    made.kernels.assign(kernels.begin(), kernels.end());
    made.shapes.assign(shapes.begin(), shapes.end());
    made.fastest = stays ? 0 : static_cast<std::size_t>(best - medians.begin());
    made.microseconds = medians[made.fastest];
    made.default_microseconds = medians.front();
    table->add(made);
    return made;
}

}  // namespace sluice::detail
