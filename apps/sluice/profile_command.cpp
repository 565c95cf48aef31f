// SPDX-License-Identifier: Apache-2.0
#include "profile_command.hpp"

#include <iomanip>
#include <ostream>
#include <sstream>
#include <utility>

#include "json_line.hpp"
#include "network_file.hpp"
#include "output_names.hpp"
#include "process_guard.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision.hpp"
#include "sluice/profiling/record_runs.hpp"
#include "sluice/profiling/step_names.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/trace/trace_recorder.hpp"
#include "text_table.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

std::string fixed(double number, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << number;
    return text.str();
}

}  // namespace

profile_result profile(const profile_options& options) {
    run_options files;
    files.trace = options.trace;
    files.timeline = options.timeline;
    check_output_names(files);
    nn::model model = profiling::with_distinct_names(load_model(options.model, options.network));
    sample_options samples = options.inputs;
    if (!options.input.empty()) samples.files.push_back(options.input);

    profile_result result;
    result.nodes = model.body.nodes.size();
    trace_recorder recorder;
    const runtime machine({.cuda = !options.device.starts_with("cpu"), .trace = &recorder});
    device& on = machine.find(options.device);
    result.device = {on.name(), on.properties().name};
    round_robin pool(on, 1);
    const nn::network network = sync(
        nn::make_network(std::move(model), {.precision = nn::precision_from_string(options.precision).value()}), pool);
    const sample_inputs inputs(network.inputs(), samples, [&](std::size_t i) { return network.is_host_input(i); });
    const std::size_t rows = options.batch != 0 ? options.batch : inputs.rows_of_files().value_or(1);
    if (inputs.has_batch()) result.batch = rows;
    result.inputs = inputs.source();

    const signal_guard guard;  // before a file exists that a signal would leave on the disk
    trace_files written(options.trace, options.timeline);
    profiling::profile_sums sums;
    const std::vector<nn::any_tensor> given = inputs.of_batch(rows);
    const auto run_once = [&] {
        static_cast<void>(sync(network.run(given), pool));
        guard.check();
    };
    const trace last = profiling::record_runs(run_once, recorder, options.runs, sums);
    sums.fill(result, network.steps());
    result.trace_failure = written.write(last, {.title = "sluice profile " + options.model.filename().string()});
    return result;
}

void write_json(const profile_options& options, const profile_result& result, std::ostream& out) {
    auto rows = nlohmann::json::array();
    for (const profiling::profile_row& each : result.rows) {
        rows.push_back({{"operators", each.operators},
                        {"node", each.node},
                        {"commands", each.commands},
                        {"us", each.microseconds},
                        {"share", each.share}});
    }
    nlohmann::json line{{"model", options.model.string()},
                        {"device", result.device.name},
                        {"name", result.device.hardware},
                        {"inputs", result.inputs},
                        {"precision", options.precision},
                        {"batch", result.batch ? nlohmann::json(*result.batch) : nlohmann::json(nullptr)},
                        {"runs", options.runs},
                        {"rows", rows},
                        {"us", result.microseconds},
                        {"span_us", result.span_microseconds},
                        {"nodes", result.nodes},
                        {"steps_on_host", result.on_host},
                        {"steps_without_commands", result.without_commands}};
    if (result.trace_failure.empty()) {
        if (options.trace) line["trace"] = options.trace->string();
        if (options.timeline) line["timeline"] = options.timeline->string();
    }
    out << json_line(line) << '\n';
}

void write_text(const profile_options& options, const profile_result& result, std::ostream& out) {
    out << printable(options.model.native()) << " on " << result.device.name << " ("
        << printable(result.device.hardware) << ")";
    if (result.batch) out << ", batch " << *result.batch;
    if (options.precision != "f32") out << ", in " << options.precision;
    out << ", " << result.nodes << " nodes\n";
    text_table table({"us", "share", "operator", "node", "commands"});
    for (const profiling::profile_row& each : result.rows) {
        table.add(
            {fixed(each.microseconds, 1), fixed(100 * each.share, 1) + " %", each.operators, each.node, each.commands});
    }
    out << table;
    out << "all commands: " << fixed(result.microseconds, 1) << " us a run; from the first one's start to the last "
        << "one's end " << fixed(result.span_microseconds, 1) << " us\n"
        << "inputs: " << printable(result.inputs) << '\n'
        << "measured: the mean of " << options.runs << " runs, one at a time, by the device's clock; a command's time "
        << "is from when the stream reached it to when it was complete\n"
        << "nodes that one command carries out are one row; " << result.on_host << " steps are computed on the host, "
        << result.without_commands << " need no command\n";
    if (!result.trace_failure.empty()) return;
    if (options.trace) out << "trace of the last run: " << printable(options.trace->native()) << '\n';
    if (options.timeline) out << "timeline of the last run: " << printable(options.timeline->native()) << '\n';
}

}  // namespace sluice::app
