// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/precision_choice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "nn/operators/node_call.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn {
namespace {

constexpr double least_gain = 1.05;
constexpr std::size_t least_runs = 5, most_runs = 1000;
constexpr double seconds_of_measurement = 0.3;  // of all together

double difference_of_two(double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    const double difference = std::abs(a - b);
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

// NaN is the largest, as it is to the eye: two rows with NaN at the same place agree.
template <typename T>
std::size_t place_of_largest(std::span<const T> row) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        const auto each = static_cast<double>(row[i]), largest = static_cast<double>(row[best]);
        if (std::isnan(largest)) break;
        if (std::isnan(each) || each > largest) best = i;
    }
    return best;
}

template <typename T>
void add_difference(std::span<const T> expected, std::span<const T> actual, std::size_t width, output_difference& to) {
    double largest = 0, magnitude = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto a = static_cast<double>(expected[i]), b = static_cast<double>(actual[i]);
        largest = std::max(largest, difference_of_two(a, b));
        if (std::isfinite(a)) magnitude = std::max(magnitude, std::abs(a));
    }
    to.largest = std::max(to.largest, largest);
    if (largest != 0)
        to.relative =
            std::max(to.relative, magnitude != 0 ? largest / magnitude : std::numeric_limits<double>::infinity());
    for (std::size_t first = 0; width > 1 && first < expected.size(); first += width) {
        ++to.rows;
        to.agreeing_rows +=
            place_of_largest(expected.subspan(first, width)) == place_of_largest(actual.subspan(first, width));
    }
}

template <typename T>
std::vector<double> as_doubles(const any_tensor& x) {
    std::vector<double> made;
    for (const T each : x.values<T>()) made.push_back(static_cast<double>(static_cast<float>(each)));
    return made;
}

void add_difference(const any_tensor& expected, const any_tensor& actual, output_difference& to) {
    const std::size_t width = expected.shape().size() >= 2 ? expected.shape().back() : 1;
    const auto narrow = [&]<typename T>() {
        const std::vector<double> a = as_doubles<T>(expected), b = as_doubles<T>(actual);
        add_difference<double>(a, b, width, to);
    };
    switch (expected.type()) {
        case io::dtype::f16: return narrow.operator()<half>();
        case io::dtype::bf16: return narrow.operator()<bfloat16>();
        case io::dtype::f32: return add_difference(expected.values<float>(), actual.values<float>(), width, to);
        case io::dtype::f64: return add_difference(expected.values<double>(), actual.values<double>(), width, to);
        default: break;
    }
    const std::size_t size = io::size_of(expected.type());
    for (std::size_t at = 0; at < expected.size_bytes(); at += size) {
        ++to.rows;
        to.agreeing_rows += std::ranges::equal(expected.bytes().subspan(at, size), actual.bytes().subspan(at, size));
    }
}

// Medians of the times of one run; the networks run in turn.
std::vector<double> median_runs(const std::vector<network>& all, const std::vector<any_tensor>& sample,
                                scheduling_policy& pool) {
    using clock = std::chrono::steady_clock;
    std::vector<std::vector<double>> times(all.size());
    const auto begin = clock::now();
    const auto is_enough = [&](std::size_t rounds) {
        return rounds >= most_runs ||
               (rounds >= least_runs &&
                std::chrono::duration<double>(clock::now() - begin).count() >= seconds_of_measurement);
    };
    for (std::size_t round = 0; !is_enough(round); ++round) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto start = clock::now();
            sync(all[i].run(sample), pool);
            times[i].push_back(std::chrono::duration<double>(clock::now() - start).count());
        }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : times) {
        std::ranges::nth_element(each, each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2));
        medians.push_back(each[each.size() / 2]);
    }
    return medians;
}

}  // namespace

output_difference difference_of(const std::vector<any_tensor>& f32, const std::vector<any_tensor>& rounded) {
    const auto fits = [](const any_tensor& a, const any_tensor& b) {
        return a.type() == b.type() && a.shape() == b.shape();
    };
    if (!std::ranges::equal(f32, rounded, fits))
        throw error(errc::shape_mismatch, "outputs of other types or shapes are compared", {"difference_of"});
    output_difference made;
    for (std::size_t i = 0; i < f32.size(); ++i) add_difference(f32[i], rounded[i], made);
    return made;
}

precision_choice choose_precision(const model& from, const std::vector<any_tensor>& sample, scheduling_policy& pool,
                                  const precision_bounds& bounds) {
    precision_choice made;
    std::vector<network> networks;
    std::vector<any_tensor> expected;
    for (const precision each : {precision::f32, precision::bf16, precision::f16, precision::int8}) {
        networks.push_back(sync(make_network(from, {.precision = each}), pool));
        const std::vector<any_tensor> outputs = sync(networks.back().run(sample), pool);  // also the warm-up
        if (each == precision::f32) expected = outputs;
        precision_measurement measured{
            .rounding = networks.back().rounding(), .seconds = 0, .difference = difference_of(expected, outputs)};
        const output_difference& difference = measured.difference;
        measured.is_accurate = difference.relative <= bounds.relative_difference &&
                               (!bounds.keeps_largest || difference.agreeing_rows == difference.rows);
        made.measured.push_back(std::move(measured));
    }
    const std::vector<double> seconds = median_runs(networks, sample, pool);
    double fastest = seconds.front() / least_gain;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        precision_measurement& each = made.measured[i];
        each.seconds = seconds[i];
        if (i == 0 || !each.is_accurate || each.rounding.rounded == 0 || seconds[i] >= fastest) continue;
        made.chosen = each.rounding.precision;
        fastest = seconds[i];
    }
    return made;
}

}  // namespace sluice::nn
