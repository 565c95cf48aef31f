// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include <chrono>

#include "output_names.hpp"
#include "process_guard.hpp"
#include "progress_bar.hpp"
#include "requirements.hpp"
#include "run_devices.hpp"
#include "run_inputs.hpp"
#include "run_precision.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/nn/run_limit.hpp"
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

run_result run(const run_options& options, row_network network) {
    const nn::run_limit limit(options.most_run_bytes);
    // Everything is read and checked before a device is touched or a file is created.
    check_output_names(options);
    input_rows input(options, network.in);
    run_result result;
    result.rows = input.count();
    result.output = network.network.body.outputs.front().name;
    result.outputs = network.out;
    output_check checked(options, result.rows, {0, result.rows}, result.outputs);

    std::optional<trace_recorder> recorder;
    if (options.trace || options.timeline) recorder.emplace();
    const run_devices devices(
        options, {.trace = recorder ? &*recorder : nullptr},
        [&](const runtime& machine) {
            return options.device == "all" ? device_set::of(machine) : device_set{machine.find(options.device)};
        },
        network.network);
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
    devices.engine().run(
        result.rows, [&](std::size_t first, std::size_t count) { return input.rows({first, count}); }, take);
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
