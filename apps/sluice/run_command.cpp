// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include <chrono>

#include "network_file.hpp"
#include "output_names.hpp"
#include "process_guard.hpp"
#include "progress_bar.hpp"
#include "requirements.hpp"
#include "run_devices.hpp"
#include "run_inputs.hpp"
#include "run_precision.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/trace/trace_recorder.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

// The same rows again and again, each pass after the one before it has ended. The first pass of the run has warmed up
// files and caches. Blocks for at least `least_seconds`.
run_measurement measure(const nn::engine& engine, input_rows& input, const signal_guard& guard, double least_seconds) {
    run_measurement made;
    const auto start = clock::now();
    do {
        input.begin_again();
        engine.run(
            input.count(), [&](std::size_t first, std::size_t count) { return input.rows({first, count}); },
            [&](std::size_t first, std::span<const float>) {
                guard.check();
                input.release_until(0, first);
            });
        ++made.passes;
        made.seconds = seconds_since(start);
    } while (made.seconds < least_seconds);
    return made;
}

}  // namespace

run_result run(const run_options& options) {
    // Everything is read and checked before a device is touched or a file is created.
    if (!options.named_inputs.empty() || options.named_outputs.size() > 1)
        throw error(errc::invalid_argument, "--input and several --output are for networks in ONNX files", {"run"});
    refuse_precision_of_rows(options);
    check_output_names(options);
    const nn::mlp_model model = load_network(options.model, options.network, links_of(options.follows_links));
    input_rows input(options, model.in_features());
    run_result result;
    result.rows = input.count();
    result.outputs = model.out_features();
    output_check checked(options, result.rows, {0, result.rows}, result.outputs);

    std::optional<trace_recorder> recorder;
    if (options.trace || options.timeline) recorder.emplace();
    const run_devices devices(
        options, {.trace = recorder ? &*recorder : nullptr},
        [&](const runtime& machine) {
            return options.device == "all" ? device_set::of(machine) : device_set{machine.find(options.device)};
        },
        [&](device&, scheduling_policy& pool) { return sync(nn::make_plan(model), pool); });
    result.streams = devices.streams();
    result.devices = devices.uses();
    devices.engine().warm_up(result.rows);
    const signal_guard guard;  // before a file exists that a signal would leave on the disk
    std::optional<io::npy_writer> writer;
    if (options.output) writer.emplace(*options.output, std::vector{result.rows, result.outputs});
    trace_files traces(options.trace, options.timeline);
    if (recorder) static_cast<void>(recorder->take());  // the warm-up

    progress_bar progress(result.rows, options.progress);
    const auto start = clock::now();
    const nn::row_sink take = [&](std::size_t first, std::span<const float> outputs) {
        guard.check();
        const std::size_t done = first + outputs.size() / result.outputs;
        input.release_until(0, done);
        if (writer) writer->write_rows(first, outputs);
        checked.take(first, outputs);
        progress.update(done);
    };
    if (recorder) {  // each batch has its own commands, which the trace shows
        devices.engine().run(
            result.rows, [&](std::size_t first, std::size_t count) { return input.batch({first, count}); }, take);
    } else {
        devices.engine().run(
            result.rows, [&](std::size_t first, std::size_t count) { return input.rows({first, count}); }, take);
    }
    result.seconds = seconds_since(start);
    result.correct = checked.correct();
    result.largest_difference = checked.largest_difference();
    result.missed = missed_requirements(options, result);
    if (options.measure_seconds) result.measured = measure(devices.engine(), input, guard, *options.measure_seconds);
    input.require_unchanged();
    checked.require_unchanged();
    guard.check();  // from here on it is too late: the run is complete
    if (!result.missed.empty()) return result;
    if (writer) writer->commit();
    if (recorder) {
        result.commands_not_traced = recorder->dropped();
        result.trace_failure = traces.write(*recorder, {.title = "sluice run " + options.model.filename().string()});
    }
    return result;
}

}  // namespace sluice::app
