// SPDX-License-Identifier: Apache-2.0
#include "measuring_options.hpp"

#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "option_parts.hpp"

namespace sluice::app {
namespace {

constexpr int most_rows = 1 << 30;
const std::string time_range = "a number of seconds from 0.001 to 86400";
constexpr double least_seconds = 1e-3, most_seconds = 24 * 3600;

std::size_t rows_from(const std::string& word) {
    int rows = 0;
    const auto [stop, failure] = std::from_chars(word.data(), word.data() + word.size(), rows);
    const bool is_number = failure == std::errc() && stop == word.data() + word.size();
    if (!is_number || rows < 1 || rows > most_rows)
        throw CLI::ValidationError("--batch", "accepted are numbers from 1 to " + std::to_string(most_rows));
    return static_cast<std::size_t>(rows);
}

void add_device(CLI::App& app, std::string& to) {
    app.add_option("--device", to, "cpu, cpu:N, cuda, cuda:N or auto")->type_name("DEVICE")->capture_default_str();
}

CLI::Option* add_precision(CLI::App& app, std::string& to) {
    return app.add_option("--precision", to, "Of products and convolutions, as for run")
        ->type_name("f32|bf16|f16|int8")
        ->capture_default_str()
        ->check(CLI::IsMember({"f32", "bf16", "f16", "int8"}));
}

void add_only_input(CLI::App& app, std::string& to) {
    app.add_option("INPUT", to, "The file of the only input (default: random numbers)")->type_name("INPUT.npy");
}

void add_batch(CLI::App& app, std::size_t& to, const std::string& otherwise) {
    app.add_option("--batch", to,
                   "Rows; files are repeated or cut to as many (default: those of the files, else " + otherwise + ")")
        ->type_name("ROWS")
        ->check(CLI::Range(1, most_rows));
}

}  // namespace

void add_bench(CLI::App& app, bench_options& options) {
    add_model(app, options.model);
    add_samples(app, options.inputs);
    add_list(app, "--batch", "Rows of a call; several, with commas, are measured one after the other",
             [&](const std::vector<std::string>& words) {
                 options.batches.clear();
                 for (const std::string& each : words) options.batches.push_back(rows_from(each));
             })
        ->type_name("ROWS")
        ->default_str("1,8,64");
    add_list(app, "--device", "cpu, cpu:N, cuda, cuda:N, all or auto; several, with commas (default: auto)",
             [&](const std::vector<std::string>& words) { options.devices = words; })
        ->type_name("DEVICE");
    add_number(app, "--seconds", "Time of each measurement: latencies, then the throughput (default: 1)",
               options.seconds, least_seconds, most_seconds, time_range)
        ->type_name("SECONDS");
    add_number(app, "--warm-up", "Calls for at least this time come before each measurement (default: 0.2)",
               options.warm_up_seconds, 0, most_seconds, "a number of seconds from 0 to 86400")
        ->type_name("SECONDS");
    app.add_option("--in-flight", options.in_flight,
                   "Calls in flight for the throughput (default: 4, on a CPU 2 for each worker)")
        ->type_name("COUNT")
        ->check(CLI::Range(1, 256));
    app.add_option("--plot", options.plot, "File for a picture: latency and throughput over the batch size")
        ->type_name("OUT.svg");
    add_network(app, options.network);
}

void add_profile(CLI::App& app, profile_options& options) {
    add_model(app, options.model);
    add_only_input(app, options.input);
    add_samples(app, options.inputs);
    add_batch(app, options.batch, "1");
    add_device(app, options.device);
    add_precision(app, options.precision);
    app.add_option("--runs", options.runs, "Runs that are measured; the times are their mean")
        ->type_name("COUNT")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--trace", options.trace,
                   "File for a trace of the last run, for ui.perfetto.dev or chrome://tracing")
        ->type_name("OUT.json");
    app.add_option("--timeline", options.timeline, "File for a picture of the last run: what ran when")
        ->type_name("OUT.svg");
    add_network(app, options.network);
}

void add_compare(CLI::App& app, compare_options& options) {
    app.add_option("a", options.a, "Network: a safetensors or ONNX file; or the output of one (OUT.npy)")
        ->required()
        ->type_name("MODEL");
    app.add_option("b", options.b, "What it is compared with: the same")->required()->type_name("MODEL");
    add_only_input(app, options.input);
    add_samples(app, options.inputs);
    add_batch(app, options.batch, std::to_string(default_compared_rows));
    add_device(app, options.device);
    add_number(app, "--tolerance", "Fail with status 3 when the largest difference is larger or NaN", options.tolerance,
               0, std::numeric_limits<double>::max(), "a finite number, at least 0, such as 1e-4")
        ->type_name("X");
    add_network(app, options.network);
}

void add_inspect(CLI::App& app, inspect_options& options) {
    add_model(app, options.model);
    app.add_option("--picture", options.picture, "File for a picture of the network")->type_name("OUT.svg");
    CLI::Option* const passes = app.add_flag("--passes", options.passes, "Show what each pass makes of it, too");
    app.add_option("--device", options.device, "The device for which: cpu, cpu:N, cuda, cuda:N or auto")
        ->type_name("DEVICE")
        ->capture_default_str()
        ->needs(passes);
    add_precision(app, options.precision)->needs(passes);
    add_network(app, options.network);
}

}  // namespace sluice::app
