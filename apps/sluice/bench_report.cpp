// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "bench_command.hpp"
#include "json_line.hpp"
#include "run_command.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/drawing/line_chart.hpp"
#include "text_table.hpp"

namespace sluice::app {
namespace {

// About three digits: "4.17", "41.7", "417".
std::string text_of(const std::optional<double>& number) {
    if (!number) return "-";
    std::ostringstream text;
    text << std::fixed << std::setprecision(*number < 10 ? 2 : *number < 100 ? 1 : 0) << *number;
    return text.str();
}

std::optional<double> rate_of(const bench_case& of) {
    const std::optional<double> calls = of.throughput.calls_per_second();
    return calls ? std::optional(*calls * static_cast<double>(of.batch.value_or(1))) : calls;
}

nlohmann::json json_of(const std::optional<double>& number) {
    return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

bool has_figures(const bench_case& of) {
    return of.latency.p50_us && of.latency.p90_us && of.latency.p99_us && of.throughput.calls_per_second();
}

// "4 calls in flight on cpu:0, 8 on cuda:0"
std::string in_flight_text(const bench_result& result) {
    std::string text;
    std::vector<std::string> told;
    for (const bench_case& each : result.cases) {
        if (std::ranges::find(told, each.device) != told.end()) continue;
        told.push_back(each.device);
        text += (text.empty() ? "" : ", ") + std::to_string(each.throughput.in_flight) +
                (text.empty() ? " calls in flight on " : " on ") + each.device;
    }
    return text;
}

// What the table's dashes and columns mean.
void write_notes(const bench_options& options, const bench_result& result, std::ostream& out) {
    const bool has_graph = std::ranges::any_of(
        result.cases, [](const bench_case& each) { return each.way == call_way::graph && each.why_not.empty(); });
    out << "inputs: " << printable(result.inputs) << '\n';
    if (!result.cases.front().batch)
        out << "the inputs have no dimension for a batch: the network is measured as it is\n";
    out << "sync: the network's commands are submitted for each call";
    out << (has_graph ? "; graph: each call launches a compiled graph\n" : "\n");
    out << "latencies: one call at a time, from inputs in host memory to outputs there; rates: "
        << in_flight_text(result) << '\n';
    const bool is_short = std::ranges::any_of(
        result.cases, [](const bench_case& each) { return each.why_not.empty() && !has_figures(each); });
    if (is_short) {
        out << "-: too few calls (p50 and max need " << least_calls_of_p50 << ", p90 " << least_calls_of_p90 << ", p99 "
            << least_calls_of_p99 << ") or less than " << least_measurable_seconds << " s; --seconds "
            << 10 * options.seconds.value_or(default_bench_seconds) << " measures longer\n";
    }
    for (const bench_case& each : result.cases) {
        if (each.why_not.empty()) continue;
        out << "no graph on " << each.device;
        if (each.batch) out << ", batch " << *each.batch;
        out << ": " << printable(each.why_not) << '\n';
    }
}

// One for each device and way.
std::vector<chart_series> series_of(const bench_result& result) {
    std::vector<chart_series> all;
    std::vector<std::string> devices;
    for (const bench_case& each : result.cases) {
        if (std::ranges::find(devices, each.device) == devices.end()) devices.push_back(each.device);
        const std::string name = each.device + " (" + each.hardware + "), " + std::string(to_string(each.way));
        const bool is_new = std::ranges::none_of(all, [&](const chart_series& one) { return one.name == name; });
        if (is_new)
            all.push_back(
                {.name = name, .points = {}, .colour = devices.size() - 1, .is_dashed = each.way == call_way::sync});
    }
    return all;
}

template <typename Point>
line_chart chart_of(const bench_result& result, line_chart chart, const Point& point_of) {
    chart.series = series_of(result);
    for (const bench_case& each : result.cases) {
        const std::string name = each.device + " (" + each.hardware + "), " + std::string(to_string(each.way));
        for (chart_series& one : chart.series) {
            const std::optional<chart_point> point = one.name == name ? point_of(each) : std::optional<chart_point>();
            if (point) one.points.push_back(*point);
        }
    }
    for (chart_series& each : chart.series) std::ranges::sort(each.points, {}, &chart_point::x);
    return chart;
}

}  // namespace

void write_json(const bench_options& options, const bench_result& result, std::ostream& out) {
    for (const bench_case& each : result.cases) {
        nlohmann::json line{{"model", options.model.string()},
                            {"inputs", result.inputs},
                            {"device", each.device},
                            {"name", each.hardware},
                            {"how", to_string(each.way)},
                            {"batch", each.batch ? nlohmann::json(*each.batch) : nlohmann::json(nullptr)},
                            {"calls", each.latency.calls},
                            {"seconds", each.latency.seconds},
                            {"p50_us", json_of(each.latency.p50_us)},
                            {"p90_us", json_of(each.latency.p90_us)},
                            {"p99_us", json_of(each.latency.p99_us)},
                            {"max_us", json_of(each.latency.max_us)},
                            {"in_flight", each.throughput.in_flight},
                            {"throughput_calls", each.throughput.calls},
                            {"throughput_seconds", each.throughput.seconds},
                            {each.batch ? "rows_per_second" : "calls_per_second", json_of(rate_of(each))}};
        if (!each.why_not.empty()) line["why_not"] = each.why_not;
        out << json_line(line) << '\n';
    }
}

void write_text(const bench_options& options, const bench_result& result, std::ostream& out) {
    const bool has_batch = result.cases.front().batch.has_value();
    text_table table(
        {"device", "how", "batch", "calls", "p50 us", "p90 us", "p99 us", "max us", has_batch ? "rows/s" : "calls/s"});
    std::string devices;
    for (const bench_case& each : result.cases) {
        const std::string device = each.device + " (" + each.hardware + ")";
        if (devices.find(device) == std::string::npos) devices += (devices.empty() ? "" : ", ") + device;
        table.add({each.device, std::string(to_string(each.way)), each.batch ? std::to_string(*each.batch) : "-",
                   each.why_not.empty() ? std::to_string(each.latency.calls) : "-", text_of(each.latency.p50_us),
                   text_of(each.latency.p90_us), text_of(each.latency.p99_us), text_of(each.latency.max_us),
                   text_of(rate_of(each))});
    }
    out << printable(options.model.native()) << " on " << printable(devices) << '\n' << table;
    write_notes(options, result, out);
    if (options.plot) out << "plot: " << printable(options.plot->native()) << '\n';
}

void write_plot(const bench_options& options, const bench_result& result, std::ostream& out) {
    const line_chart latency = chart_of(
        result,
        {.title = "Latency, one call at a time", .x_label = "batch (rows)", .y_label = "µs a call: p50, up to p99"},
        [](const bench_case& each) -> std::optional<chart_point> {
            if (!each.latency.p50_us || !each.batch) return {};
            return chart_point{static_cast<double>(*each.batch), *each.latency.p50_us, each.latency.p99_us};
        });
    const line_chart throughput = chart_of(
        result, {.title = "Throughput, " + in_flight_text(result), .x_label = "batch (rows)", .y_label = "rows/s"},
        [](const bench_case& each) -> std::optional<chart_point> {
            const std::optional<double> rate = rate_of(each);
            if (!rate || !each.batch) return {};
            return chart_point{static_cast<double>(*each.batch), *rate};
        });
    const std::array charts{latency, throughput};
    write_line_charts(options.model.filename().string(), charts, out);
}

}  // namespace sluice::app
