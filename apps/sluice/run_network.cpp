// SPDX-License-Identifier: Apache-2.0
#include "run_network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "json_line.hpp"
#include "output_names.hpp"
#include "process_guard.hpp"
#include "run_inputs.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/io/npy_writer.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/to_mlp.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/trace/trace_recorder.hpp"
#include "trace_files.hpp"

namespace sluice::app {
namespace {

using clock = std::chrono::steady_clock;
using named_paths = std::map<std::string, std::filesystem::path>;

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why, {"run"}); }

std::string names_of(const std::vector<nn::value_info>& values) {
    std::string text;
    for (const nn::value_info& each : values) text += (text.empty() ? "" : ", ") + in_quotes(each.name);
    return text;
}

// The files of NAME=FILE words; a word without '=' names the only value.
named_paths named(const std::vector<std::string>& words, const std::vector<nn::value_info>& values,
                  const std::string& option) {
    named_paths made;
    for (const std::string& word : words) {
        const std::size_t at = word.find('=');
        if (at == std::string::npos && values.size() != 1)
            refuse(option + " " + in_quotes(word) + ": write NAME=FILE, with one of the names " + names_of(values));
        const std::string name = at == std::string::npos ? values.front().name : word.substr(0, at);
        const std::string file = at == std::string::npos ? word : word.substr(at + 1);
        if (file.empty()) refuse(option + ": the name of the file is empty");
        if (std::ranges::none_of(values, [&](const nn::value_info& each) { return each.name == name; }))
            refuse(option + ": the network has no " + in_quotes(name) + "; it has " + names_of(values));
        if (!made.emplace(name, file).second) refuse(option + ": " + in_quotes(name) + " is named twice");
    }
    return made;
}

// Of the type that the network takes: numbers of other types become floats where it takes floats.
nn::any_tensor read_input(const std::filesystem::path& path, const nn::value_info& as) {
    const io::npy_file file(path);
    const io::npy_view& view = file.view();
    const std::vector<std::size_t>& shape = view.shape();
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(as.type, shape, to);
    if (view.element_type() == as.type) {
        if (!view.data().empty()) std::memcpy(to, view.data().data(), view.data().size());
    } else if (as.type == io::dtype::f32) {
        io::convert_to_float(view.element_type(), view.data(), {reinterpret_cast<float*>(to), made.elements()});
    } else {
        throw file_error(path, file_error::no_offset, "descr",
                         "has elements of type " + std::string(io::to_string(view.element_type())) + "; the input " +
                             in_quotes(as.name) + " is " + std::string(io::to_string(as.type)));
    }
    file.file().require_unchanged();
    return made;
}

void refuse_options_of_rows(const run_options& options) {
    const std::pair<const char*, bool> given[] = {{"--measure", options.measure_seconds.has_value()},
                                                  {"--batch", options.batch != run_options().batch},
                                                  {"--streams", options.streams != 0},
                                                  {"--progress", options.progress}};
    for (const auto& [name, is_given] : given) {
        if (is_given) {
            refuse(std::string(name) +
                   " is for multi-layer perceptrons, which run row by row; this network runs once, with whole arrays");
        }
    }
    if (options.device == "all") refuse("--device all is for multi-layer perceptrons; name one device");
    if (options.network.hidden || options.network.output)
        refuse("an ONNX file has its activations as nodes: leave out --activation and --output-activation");
}

// Of the only output, which is f32 [rows, classes].
void count_correct(const run_options& options, const std::vector<nn::any_tensor>& answers, network_result& result) {
    const bool fits = answers.size() == 1 && answers[0].type() == io::dtype::f32 && answers[0].shape().size() == 2;
    if (!fits) refuse("--labels is for networks with one output, f32 [rows, classes]");
    result.rows = answers[0].shape()[0];
    const std::size_t classes = answers[0].shape()[1];
    const label_reader labels(*options.labels, result.rows, {0, result.rows}, classes);
    result.correct = labels.count_correct(0, answers[0].values<float>(), classes);
}

double accuracy_of(const network_result& result) {
    return static_cast<double>(*result.correct) / static_cast<double>(result.rows);
}

double largest_difference(const nn::any_tensor& answer, const std::filesystem::path& path) {
    const io::npy_file file(path);
    const io::npy_view& view = file.view();
    if (view.shape() != answer.shape()) {
        throw file_error(path, file_error::no_offset, "shape",
                         "is " + nn::to_string(std::span(view.shape())) + "; the output is " +
                             nn::to_string(std::span(answer.shape())));
    }
    std::vector<float> expected(answer.elements()), given(answer.elements());
    io::convert_to_float(view.element_type(), view.data(), expected);
    io::convert_to_float(answer.type(), answer.bytes(), given);
    float largest = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (given[i] == expected[i]) continue;  // infinities too
        largest = larger_difference(largest, std::abs(given[i] - expected[i]));
    }
    file.file().require_unchanged();
    return largest;
}

}  // namespace

bool is_run_as_network(const run_options& options, const nn::model& network) {
    if (!options.named_inputs.empty() || options.named_outputs.size() > 1) return true;
    const auto is_named = [](const std::string& word) { return word.find('=') != std::string::npos; };
    if (std::ranges::any_of(options.named_outputs, is_named)) return true;
    try {
        static_cast<void>(nn::to_mlp(network));
        return false;
    } catch (const error&) {
        return true;
    }
}

network_result run_network(const run_options& options, nn::model network) {
    refuse_options_of_rows(options);
    const std::vector<nn::value_info> takes = network.body.inputs, gives = network.body.outputs;
    std::vector<std::string> input_words = options.named_inputs;
    if (!options.input.empty()) input_words.push_back(options.input.string());
    const named_paths input_files = named(input_words, takes, "--input");
    const named_paths output_files = named(options.named_outputs, gives, "--output");
    named_paths reference_files;
    if (options.reference) reference_files = named({options.reference->string()}, gives, "--reference");
    for (const nn::value_info& each : takes) {
        if (!input_files.contains(each.name))
            refuse("the input " + in_quotes(each.name) + " is not given: add --input NAME=FILE");
    }
    run_options files = options;
    files.output.reset();  // it is among those of the network
    for (const auto& [name, file] : output_files) files.outputs_of_network.push_back(file);
    check_output_names(files);

    std::vector<nn::any_tensor> inputs;
    for (const nn::value_info& each : takes) inputs.push_back(read_input(input_files.at(each.name), each));

    std::optional<trace_recorder> recorder;
    if (options.trace || options.timeline) recorder.emplace();
    runtime machine({.cuda = !options.device.starts_with("cpu"), .trace = recorder ? &*recorder : nullptr});
    device& on = machine.find(options.device);
    round_robin pool(on, 4);
    const nn::network ready = sync(nn::make_network(std::move(network)), pool);
    const signal_guard guard;  // before a file exists that a signal would leave on the disk
    trace_files traces(options.trace, options.timeline);

    network_result result;
    result.device = {on.name(), on.properties().name};
    const auto start = clock::now();
    const std::vector<nn::any_tensor> answers = sync(ready.run(std::move(inputs)), pool);
    result.seconds = std::chrono::duration<double>(clock::now() - start).count();
    guard.check();

    for (std::size_t i = 0; i < answers.size(); ++i) {
        network_output made{gives[i].name, nn::to_string(answers[i]), {}, {}};
        if (const auto file = output_files.find(made.name); file != output_files.end()) made.file = file->second;
        if (const auto file = reference_files.find(made.name); file != reference_files.end()) {
            made.largest_difference = largest_difference(answers[i], file->second);
            const bool is_met = !options.tolerance || *made.largest_difference <= *options.tolerance;
            if (!is_met) {
                result.missed = "the largest difference of " + in_quotes(made.name) + " from " + file->second.string() +
                                " is " + std::to_string(*made.largest_difference) + ", --tolerance allows " +
                                std::to_string(*options.tolerance);
            }
        }
        result.outputs.push_back(std::move(made));
    }
    if (options.labels) count_correct(options, answers, result);
    if (options.min_accuracy && accuracy_of(result) < *options.min_accuracy) {
        result.missed += std::string(result.missed.empty() ? "" : "; ") + "the accuracy is " +
                         std::to_string(accuracy_of(result)) + ", --min-accuracy requires " +
                         std::to_string(*options.min_accuracy);
    }
    if (!result.missed.empty()) return result;
    // All are complete before the first one appears.
    std::vector<std::unique_ptr<io::npy_writer>> writers;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (!result.outputs[i].file) continue;
        writers.push_back(
            std::make_unique<io::npy_writer>(*result.outputs[i].file, answers[i].shape(), answers[i].type()));
        writers.back()->write_row_bytes(0, answers[i].bytes());
    }
    guard.check();
    for (const auto& each : writers) each->commit();
    if (recorder) {
        result.commands_not_traced = recorder->dropped();
        traces.write(recorder->take(), {.title = "sluice run " + options.model.filename().string()});
    }
    return result;
}

std::string to_json(const run_options& options, const network_result& result) {
    auto outputs = nlohmann::json::array();
    for (const network_output& each : result.outputs) {
        nlohmann::json one{{"name", each.name}, {"tensor", each.type_and_shape}};
        if (each.file && result.missed.empty()) one["file"] = each.file->string();
        if (each.largest_difference) one["largest_difference"] = *each.largest_difference;
        outputs.push_back(std::move(one));
    }
    nlohmann::json report{{"model", options.model.string()},
                          {"devices", {{{"device", result.device.name}, {"name", result.device.hardware}}}},
                          {"outputs", outputs},
                          {"seconds", result.seconds}};
    if (result.correct) report["accuracy"] = accuracy_of(result);
    if (options.tolerance) report["tolerance"] = *options.tolerance;
    if (options.min_accuracy) report["min_accuracy"] = *options.min_accuracy;
    if (options.tolerance || options.min_accuracy) report["passed"] = result.missed.empty();
    if (options.trace) report["trace"] = options.trace->string();
    if (options.timeline) report["timeline"] = options.timeline->string();
    if (result.commands_not_traced != 0) report["commands_not_traced"] = result.commands_not_traced;
    return json_line(report);
}

std::string to_text(const run_options& options, const network_result& result) {
    std::ostringstream text;
    text << "device              " << result.device.name << " (" << printable(result.device.hardware) << ")\n";
    for (const network_output& each : result.outputs) {
        text << "output              " << printable(each.name) << ": " << each.type_and_shape;
        if (each.file && result.missed.empty()) text << ", in " << printable(each.file->native());
        text << '\n';
        if (!each.largest_difference) continue;
        text << "largest difference  " << std::setprecision(3) << *each.largest_difference << " from "
             << printable(options.reference->native()) << '\n';
    }
    if (result.correct) {
        text << "accuracy            " << std::fixed << std::setprecision(4) << accuracy_of(result) << " ("
             << *result.correct << " of " << result.rows << ")\n";
    }
    text << "time                " << std::fixed << std::setprecision(2) << result.seconds * 1e3
         << " ms, the first run of the network\n";
    if (options.trace) text << "trace               " << printable(options.trace->native()) << '\n';
    if (options.timeline) text << "timeline            " << printable(options.timeline->native()) << '\n';
    return text.str();
}

}  // namespace sluice::app
