// SPDX-License-Identifier: Apache-2.0
#include "run_network.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "input_files.hpp"
#include "network_files.hpp"
#include "output_names.hpp"
#include "process_guard.hpp"
#include "requirements.hpp"
#include "run_devices.hpp"
#include "run_inputs.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/npy_texts.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/trace/trace_recorder.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"run"}); }

void refuse_options_of_rows(const run_options& options) {
    const std::pair<const char*, bool> given[] = {{"--measure", options.measure_seconds.has_value()},
                                                  {"--batch", options.batch != run_options().batch},
                                                  {"--streams", options.streams != 0},
                                                  {"--progress", options.progress}};
    for (const auto& [name, is_given] : given) {
        if (is_given) {
            refuse(std::string(name) +
                   " is for runs row by row: of networks with one input f32 [rows, features], one such output and "
                   "independent rows, without named inputs or outputs, --precision or pictures; this run takes whole "
                   "arrays");
        }
    }
    if (options.device == "all") refuse("--device all is for runs row by row; name one device");
}

// In the order of the network's inputs.
std::vector<nn::any_tensor> read_inputs(const run_options& options, const named_paths& files,
                                        const std::vector<nn::value_info>& takes, std::span<const std::string> texts) {
    std::vector<input_source> sources;
    for (const nn::value_info& each : takes) sources.push_back(source_of(files.at(each.name)));
    input_options how = parse_input_options(options, sources);
    how.texts = texts;
    std::vector<nn::any_tensor> inputs;
    for (std::size_t i = 0; i < sources.size(); ++i) inputs.push_back(read_input(sources[i], takes[i], how));
    return inputs;
}

// Of the only output, which is f32 [rows, classes].
void count_correct(const run_options& options, const std::vector<nn::any_tensor>& answers, run_outcome& result) {
    const bool fits = answers.size() == 1 && answers[0].type() == io::dtype::f32 && answers[0].shape().size() == 2;
    if (!fits) refuse("--labels is for networks with one output, f32 [rows, classes]");
    result.rows = answers[0].shape()[0];
    const std::size_t classes = answers[0].shape()[1];
    const label_reader labels(*options.labels, result.rows, {0, result.rows}, classes);
    result.correct = labels.count_correct(0, answers[0].values<float>(), classes);
}

// All are complete before the first one appears.
void write_outputs(const std::vector<nn::any_tensor>& answers, const std::vector<nn::value_info>& gives,
                   const nn::text_codes& texts, const network_result& result, const signal_guard& guard) {
    std::vector<std::unique_ptr<io::npy_writer>> writers;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (!result.outputs[i].file) continue;
        if (gives[i].is_text) continue;
        writers.push_back(
            std::make_unique<io::npy_writer>(*result.outputs[i].file, answers[i].shape(), answers[i].type()));
        writers.back()->write_row_bytes(0, answers[i].bytes());
    }
    guard.check();
    for (const auto& each : writers) each->commit();
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (gives[i].is_text && result.outputs[i].file)
            io::write_npy_texts(*result.outputs[i].file, answers[i].shape(), texts.decode(answers[i]));
    }
}

}  // namespace

bool asks_for_whole_arrays(const run_options& options) {
    if (!options.named_inputs.empty() || options.named_outputs.size() > 1 || !options.precision.empty()) return true;
    if (source_of(options.input).kind == input_kind::images) return true;  // the network says how they are read
    const auto is_named = [](const std::string& word) { return word.find('=') != std::string::npos; };
    return is_named(options.input.string()) || (options.reference && is_named(options.reference->string())) ||
           std::ranges::any_of(options.named_outputs, is_named);
}

network_result run_network(const run_options& options, nn::model network) {
    refuse_options_of_rows(options);
    const nn::run_limit limit(options.most_run_bytes);
    const std::vector<nn::value_info> takes = network.body.inputs, gives = network.body.outputs;
    std::vector<std::string> input_words = options.named_inputs;
    if (!options.input.empty()) input_words.push_back(options.input.string());
    const named_paths input_files = files_by_name(input_words, takes, "--input");
    const named_paths output_files = files_by_name(options.named_outputs, gives, "--output");
    named_paths reference_files;
    if (options.reference) reference_files = files_by_name({options.reference->string()}, gives, "--reference");
    for (const nn::value_info& each : takes) {
        if (!input_files.contains(each.name))
            refuse("the input " + in_quotes(each.name) + " is not given: add --input NAME=FILE");
    }
    run_options files = options;
    files.output.reset();  // it is among those of the network
    for (const auto& [name, file] : output_files) files.outputs_of_network.push_back(file);
    check_output_names(files);

    const nn::text_codes texts(network.texts);
    std::vector<nn::any_tensor> inputs = read_inputs(options, input_files, takes, network.texts);

    std::optional<trace_recorder> recorder;
    if (options.trace || options.timeline) recorder.emplace();
    runtime machine({.cuda = !options.device.starts_with("cpu"), .trace = recorder ? &*recorder : nullptr});
    device& on = machine.find(options.device);
    round_robin pool(on, 4);
    network_result result;
    const nn::network ready = make_in_precision(options, std::move(network), inputs, pool, result.precision);
    const signal_guard guard;  // before a file exists that a signal would leave on the disk
    trace_files traces(options.trace, options.timeline);
    if (recorder) static_cast<void>(recorder->take());  // how the network came to the device

    result.device = use_of(on, machine, options.device);
    const auto start = clock::now();
    const std::vector<nn::any_tensor> answers = sync(ready.run(std::move(inputs)), pool);
    result.seconds = std::chrono::duration<double>(clock::now() - start).count();
    guard.check();

    for (std::size_t i = 0; i < answers.size(); ++i) {
        network_output made{gives[i].name, (gives[i].is_text ? "text, " : "") + nn::to_string(answers[i]), {}};
        if (const auto file = output_files.find(made.name); file != output_files.end()) made.file = file->second;
        if (const auto file = reference_files.find(made.name); file != reference_files.end())
            result.largest_difference = largest_difference(answers[i], file->second);
        result.outputs.push_back(std::move(made));
    }
    if (options.labels) count_correct(options, answers, result);
    result.missed = missed_requirements(files, result);
    if (!result.missed.empty()) return result;
    write_outputs(answers, gives, texts, result, guard);
    if (recorder) {
        result.commands_not_traced = recorder->dropped();
        result.trace_failure = traces.write(*recorder, {.title = "sluice run " + options.model.filename().string()});
    }
    return result;
}

}  // namespace sluice::app
