#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_command.hpp"

namespace sluice::app {
namespace {

double rows_per_second(const run_result& result) {
    return result.seconds > 0 ? static_cast<double>(result.rows) / result.seconds : 0;
}

double accuracy(const run_result& result) {
    return static_cast<double>(*result.correct) / static_cast<double>(result.rows);
}

nlohmann::json to_json(const std::vector<device_use>& devices) {
    auto list = nlohmann::json::array();
    for (const device_use& each : devices) list.push_back({{"device", each.name}, {"name", each.hardware}});
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

std::string to_text(const std::vector<device_use>& devices) {
    std::string text;
    for (const device_use& each : devices) {
        text += (text.empty() ? "" : ", ") + each.name + " (" + each.hardware + ")";
    }
    return text;
}

}  // namespace

std::string to_json(const run_options& options, const run_result& result) {
    nlohmann::json report{{"model", options.model.string()},
                          {"input", options.input.string()},
                          {"devices", to_json(result.devices)},
                          {"rows", result.rows},
                          {"outputs", result.outputs},
                          {"batch", options.batch},
                          {"streams", result.streams},
                          {"seconds", result.seconds},
                          {"rows_per_second", rows_per_second(result)}};
    if (!result.ranks.empty()) report["ranks"] = to_json(result.ranks);
    if (result.correct) report["accuracy"] = accuracy(result);
    // JSON has no NaN: null says that there was a difference but no number for it.
    if (result.largest_difference) report["largest_difference"] = *result.largest_difference;
    if (options.output) report["output"] = options.output->string();
    if (options.trace && result.trace_failure.empty()) report["trace"] = options.trace->string();
    if (options.timeline && result.trace_failure.empty()) report["timeline"] = options.timeline->string();
    if (result.commands_not_traced != 0) report["commands_not_traced"] = result.commands_not_traced;
    // A path need not be UTF-8.
    return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
             << each.host << ": " << to_text(each.devices);
    }
    text << "\nrows                " << result.rows << " in batches of " << options.batch << " on " << result.streams
         << (result.streams == 1 ? " stream" : " streams") << '\n';
    if (result.correct) {
        text << "accuracy            " << std::fixed << std::setprecision(4) << accuracy(result) << " ("
             << *result.correct << " of " << result.rows << ")\n"
             << std::defaultfloat;
    }
    if (result.largest_difference) {
        text << "largest difference  " << std::setprecision(3) << *result.largest_difference << " from "
             << options.reference->string() << '\n';
    }
    text << "throughput          " << std::fixed << std::setprecision(0) << rows_per_second(result) << " rows/s ("
         << std::setprecision(2) << result.seconds * 1e3 << " ms)\n";
    if (options.output) text << "output              " << options.output->string() << '\n';
    if (!result.trace_failure.empty()) return text.str();
    if (options.trace) text << "trace               " << options.trace->string() << '\n';
    if (options.timeline) text << "timeline            " << options.timeline->string() << '\n';
    if (result.commands_not_traced != 0) {
        text << "                    " << result.commands_not_traced << " commands were too many for the trace\n";
    }
    return text.str();
}

}  // namespace sluice::app
