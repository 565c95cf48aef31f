#include "run_command.hpp"

#include <algorithm>
#include <chrono>

#include "progress_bar.hpp"
#include "run_devices.hpp"
#include "run_inputs.hpp"
#include "signal_guard.hpp"
#include "sluice/nn/npy_writer.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/trace_recorder.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

// Each target is a file of its own: of two the last one written would be all that is left.
void check_targets(const run_options& options) {
    std::vector<std::filesystem::path> seen;
    for (const auto* each : {&options.output, &options.trace, &options.timeline}) {
        if (!*each) continue;
        const auto target = std::filesystem::absolute(**each).lexically_normal();
        if (std::find(seen.begin(), seen.end(), target) != seen.end()) {
            throw error(errc::invalid_argument, (*each)->string() + " is to be written twice", {"run"});
        }
        seen.push_back(target);
    }
}

// Says why it failed; empty when it did not.
std::string write_traces(trace_files& to, trace_recorder& from, const run_options& options) {
    try {
        to.write(from.take(), {.title = "sluice run " + options.model.filename().string()});
        return {};
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

}  // namespace

run_result run(const run_options& options) {
    // Everything is read and checked before a device is touched or a file is made.
    const nn::mlp_model model = nn::load_mlp(options.model);
    input_rows input(options.input, model.in_features());
    run_result result;
    result.rows = input.count();
    result.outputs = model.out_features();
    judgement judged(options, result.rows, {0, result.rows}, result.outputs);

    check_targets(options);
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
    const signal_guard guard;  // before there is a file to leave behind
    std::optional<nn::npy_writer> writer;
    if (options.output) writer.emplace(*options.output, std::vector{result.rows, result.outputs});
    trace_files traces(options.trace, options.timeline);
    if (recorder) static_cast<void>(recorder->take());  // the warm-up

    progress_bar progress(result.rows, options.progress);
    const auto start = std::chrono::steady_clock::now();
    devices.engine().run(
        result.rows, [&](std::size_t first, std::size_t count) { return input.batch({first, count}); },
        [&](std::size_t first, std::span<const float> outputs) {
            guard.check();
            const std::size_t done = first + outputs.size() / result.outputs;
            input.forget_behind(0, done);
            if (writer) writer->write_rows(first, outputs);
            judged.take(first, outputs);
            progress.update(done);
        });
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.correct = judged.correct();
    result.largest_difference = judged.largest_difference();
    if (writer) writer->commit();
    if (recorder) {
        result.commands_not_traced = recorder->dropped();
        result.trace_failure = write_traces(traces, *recorder, options);
    }
    return result;
}

}  // namespace sluice::app
