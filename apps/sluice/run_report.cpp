// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <sstream>

#include "json_line.hpp"
#include "requirements.hpp"
#include "run_command.hpp"
#include "run_network.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::app {
namespace {

nlohmann::json to_json(const std::vector<device_use>& devices) {
    auto list = nlohmann::json::array();
    for (const device_use& each : devices) {
        list.push_back({{"device", each.name}, {"name", each.hardware}});
        if (!each.why_no_gpu.empty()) list.back()["why_no_gpu"] = each.why_no_gpu;
    }
    return list;
}

nlohmann::json to_json(const std::vector<rank_use>& ranks) {
    auto list = nlohmann::json::array();
    for (const rank_use& each : ranks) {
        list.push_back({{"host", each.host},
                        {"devices", to_json(each.devices)},
                        {"streams", each.streams},
                        {"rows", each.rows},
                        {"seconds", each.seconds}});
    }
    return list;
}

std::string shown(const std::filesystem::path& file) { return printable(file.native()); }

std::string to_text(const std::vector<device_use>& devices) {
    std::string text;
    for (const device_use& each : devices) {
        text += (text.empty() ? "" : ", ") + each.name + " (" + printable(each.hardware) + ")";
    }
    if (!devices.empty() && !devices.front().why_no_gpu.empty())
        text += "; no GPU: " + printable(devices.front().why_no_gpu);
    return text;
}

// What a report says after the figure of a requirement.
std::string verdict(bool is_met) { return is_met ? ": passed" : ": missed"; }

nlohmann::json to_json(const nn::rounding_report& of) {
    return {{"precision", nn::to_string(of.precision)},
            {"how", of.support.how},
            {"native", of.support.is_native},
            {"rounded", of.rounded},
            {"kept", of.kept}};
}

// JSON has no infinity: null says that there was a difference but no number for it.
nlohmann::json to_json(const nn::output_difference& of) {
    return {{"largest_difference", of.largest},
            {"relative_difference", of.relative},
            {"compared_rows", of.rows},
            {"agreeing_rows", of.agreeing_rows}};
}

nlohmann::json to_json(const used_precision& used) {
    nlohmann::json made = to_json(used.rounding);
    made["asked"] = used.asked;
    made["rows"] = used.rows;
    made["sample_rows"] = used.sample_rows;
    if (used.rounding.precision != nn::precision::f32) made.update(to_json(used.difference));
    for (const nn::precision_measurement& each : used.measured) {
        nlohmann::json one = to_json(each.rounding);
        one.update(to_json(each.difference));
        one["seconds"] = each.seconds;
        one["accurate"] = each.is_accurate;
        made["measured"].push_back(std::move(one));
    }
    return made;
}

nlohmann::json to_json(const run_measurement& measured) {
    return {{"passes", measured.passes}, {"seconds", measured.seconds}};
}

void write_checks(std::ostream& text, const run_options& options, const run_outcome& result) {
    if (result.correct) {
        text << "accuracy            " << std::fixed << std::setprecision(4) << accuracy_of(result) << " ("
             << *result.correct << " of " << result.rows << ")" << std::defaultfloat << std::setprecision(6);
        if (options.min_accuracy) {
            text << ", at least " << *options.min_accuracy << verdict(meets_accuracy(options, result));
        }
        text << '\n';
    }
    if (result.largest_difference) {
        text << "largest difference  " << std::setprecision(3) << *result.largest_difference << " from "
             << shown(*options.reference) << std::setprecision(6);
        if (options.tolerance) text << ", at most " << *options.tolerance << verdict(meets_tolerance(options, result));
        text << '\n';
    }
}

void write_traces(std::ostream& text, const run_options& options, const run_outcome& result) {
    if (!result.trace_failure.empty()) return;
    if (options.trace) text << "trace               " << shown(*options.trace) << '\n';
    if (options.timeline) text << "timeline            " << shown(*options.timeline) << '\n';
    if (result.commands_not_traced != 0) {
        text << "                    " << result.commands_not_traced << " commands found no room in the trace\n";
    }
}

void add_checks(nlohmann::json& report, const run_options& options, const run_outcome& result) {
    if (result.correct) report["accuracy"] = accuracy_of(result);
    // JSON has no NaN: null says that there was a difference but no number for it.
    if (result.largest_difference) report["largest_difference"] = *result.largest_difference;
    if (options.min_accuracy) report["min_accuracy"] = *options.min_accuracy;
    if (options.tolerance) report["tolerance"] = *options.tolerance;
    if (options.min_accuracy || options.tolerance) report["passed"] = result.missed.empty();
}

void add_traces(nlohmann::json& report, const run_options& options, const run_outcome& result) {
    if (options.trace && result.trace_failure.empty()) report["trace"] = options.trace->string();
    if (options.timeline && result.trace_failure.empty()) report["timeline"] = options.timeline->string();
    if (result.commands_not_traced != 0) report["commands_not_traced"] = result.commands_not_traced;
}

void write_times(std::ostream& text, const run_result& result) {
    text << "time                " << std::fixed << std::setprecision(2) << result.seconds * 1e3
         << " ms, with reading, comparing and writing rows\n";
    const std::optional<double> rows_per_second = throughput_of(result);
    if (!rows_per_second) {
        text << "throughput          the run is too short to measure it"
             << (result.ranks.empty() ? ": --measure SECONDS repeats the run\n" : "\n");
        return;
    }
    text << "throughput          " << std::setprecision(0) << *rows_per_second << " rows/s";
    if (result.measured) {
        text << " (" << result.measured->passes << (result.measured->passes == 1 ? " more pass" : " more passes")
             << " in " << std::setprecision(2) << result.measured->seconds << " s, without comparing and writing)";
    }
    text << '\n';
}

}  // namespace

std::optional<double> throughput_of(const run_result& result) noexcept {
    const auto rows = static_cast<double>(result.rows);
    if (result.measured) return rows * static_cast<double>(result.measured->passes) / result.measured->seconds;
    if (result.seconds < least_measurable_seconds) return std::nullopt;
    return rows / result.seconds;
}

std::string to_json(const run_options& options, const run_result& result) {
    const std::string form = "f32 [" + std::to_string(result.rows) + ", " + std::to_string(result.outputs) + "]";
    nlohmann::json output{{"name", result.output}, {"tensor", form}};
    if (options.output && result.missed.empty()) output["file"] = options.output->string();
    nlohmann::json report{{"model", options.model.string()},
                          {"input", options.input.string()},
                          {"devices", to_json(result.devices)},
                          {"rows", result.rows},
                          {"outputs", nlohmann::json::array({output})},
                          {"batch", options.batch},
                          {"streams", result.streams},
                          {"seconds", result.seconds},
                          {"rows_per_second", nullptr}};
    // null: the run was too short for a throughput.
    if (const auto rows_per_second = throughput_of(result)) report["rows_per_second"] = *rows_per_second;
    if (result.measured) report["measured"] = to_json(*result.measured);
    if (!result.ranks.empty()) report["ranks"] = to_json(result.ranks);
    add_checks(report, options, result);
    if (!result.missed.empty()) return json_line(report);  // no file was written
    add_traces(report, options, result);
    return json_line(report);
}

std::string to_text(const run_options& options, const run_result& result) {
    std::ostringstream text;
    if (result.ranks.empty()) {
        text << "device              " << to_text(result.devices);
    } else {
        text << "ranks               " << result.ranks.size();
    }
    for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
        const rank_use& each = result.ranks[rank];
        text << (rank == 0 ? "\ndevice              " : "\n                    ") << "rank " << rank << " on "
             << printable(each.host) << ": " << to_text(each.devices);
    }
    text << "\nrows                " << result.rows << " in batches of " << options.batch << " on " << result.streams
         << (result.streams == 1 ? " stream" : " streams") << '\n';
    write_checks(text, options, result);
    write_times(text, result);
    if (!result.missed.empty()) return text.str();  // no file was written
    if (options.output) text << "output              " << shown(*options.output) << '\n';
    write_traces(text, options, result);
    return text.str();
}

std::string to_json(const run_options& options, const network_result& result) {
    auto outputs = nlohmann::json::array();
    for (const network_output& each : result.outputs) {
        nlohmann::json one{{"name", each.name}, {"tensor", each.type_and_shape}};
        if (each.file && result.missed.empty()) one["file"] = each.file->string();
        outputs.push_back(std::move(one));
    }
    nlohmann::json report{{"model", options.model.string()},
                          {"devices", to_json(std::vector{result.device})},
                          {"outputs", outputs},
                          {"seconds", result.seconds}};
    if (result.precision) report["precision"] = to_json(*result.precision);
    add_checks(report, options, result);
    if (!result.missed.empty()) return json_line(report);  // no file was written
    add_traces(report, options, result);
    return json_line(report);
}

std::string to_text(const run_options& options, const network_result& result) {
    std::ostringstream text;
    text << "device              " << to_text(std::vector{result.device}) << '\n';
    if (result.precision) text << to_text(*result.precision);
    for (const network_output& each : result.outputs) {
        text << "output              " << printable(each.name) << ": " << each.type_and_shape;
        if (each.file && result.missed.empty()) text << ", in " << shown(*each.file);
        text << '\n';
    }
    write_checks(text, options, result);
    text << "time                " << std::fixed << std::setprecision(2) << result.seconds * 1e3
         << " ms, the first run of the network\n";
    if (result.missed.empty()) write_traces(text, options, result);
    return text.str();
}

}  // namespace sluice::app
