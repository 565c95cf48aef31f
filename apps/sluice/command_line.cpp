// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "command_list.hpp"
#include "completion.hpp"
#include "exit_status.hpp"
#include "image_options.hpp"
#include "manual_page.hpp"
#include "measuring_options.hpp"
#include "option_parts.hpp"
#include "program_words.hpp"
#include "serve_arguments.hpp"
#include "suggestion.hpp"
#include "unknown_words.hpp"

namespace sluice::app {
namespace {

void add_checks(CLI::App& app, run_options& options) {
    CLI::Option* const labels =
        app.add_option("--labels", options.labels, "True classes; the report has the accuracy")->type_name("L.npy");
    add_number(app, "--min-accuracy", "Fail with status 3 when the accuracy is smaller", options.min_accuracy, 0, 1,
               "a number from 0 to 1, such as 0.97")
        ->type_name("X")
        ->needs(labels);
    CLI::Option* const reference = app.add_option("--reference", options.reference,
                                                  "Outputs to compare with; the report has the largest difference")
                                       ->type_name("REF.npy");
    add_number(app, "--tolerance", "Fail with status 3 when the largest difference is larger or NaN", options.tolerance,
               0, std::numeric_limits<double>::max(), "a finite number, at least 0, such as 1e-4")
        ->type_name("X")
        ->needs(reference);
}

void add_outputs(CLI::App& app, run_options& options) {
    app.add_option("--output", options.named_outputs,
                   "File for the outputs; it appears whole or not at all. NAME=FILE for one of several outputs")
        ->type_name("[NAME=]OUT.npy")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    CLI::Option* const trace =
        app.add_option("--trace", options.trace, "File for a trace of the run, for ui.perfetto.dev or chrome://tracing")
            ->type_name("OUT.json");
    CLI::Option* const timeline =
        app.add_option("--timeline", options.timeline, "File for a picture of the run: which stream ran what, and when")
            ->type_name("OUT.svg");
    add_number(app, "--measure", "Measure the throughput: repeat the run for at least this time",
               options.measure_seconds, 1e-3, 24 * 3600, "a number of seconds from 0.001 to 86400")
        ->type_name("SECONDS")
        ->excludes(trace)  // recording takes time
        ->excludes(timeline);
}

void add_run(CLI::App& app, run_options& options) {
    app.add_option("model", options.model,
                   "Network: a safetensors or ONNX file (MODEL.onnx), or trees of LightGBM, XGBoost, CatBoost")
        ->required()
        ->type_name("MODEL");
    app.add_option("INPUT", options.input,
                   "Rows of features, or the only input of the network: INPUT.npy, INPUT.npz, INPUT.npz:MEMBER, "
                   "INPUT.csv, INPUT.png, INPUT.jpg, or a folder of pictures")
        ->type_name("INPUT");
    app.add_option("--input", options.named_inputs, "An input of the network, by its name")
        ->type_name("NAME=INPUT")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--csv", options.csv, "How tables are read: header=yes or no, separator=C, tab or space")
        ->type_name("KEY=VALUE...");
    app.add_option("--image", options.image, std::string("How pictures are read: ") + image_keys)
        ->type_name("KEY=VALUE...");
    add_checks(app, options);
    add_outputs(app, options);
    app.add_option("--device", options.device, "cpu, cpu:N, cuda, cuda:N, all (GPUs, or else CPUs) or auto")
        ->type_name("DEVICE")
        ->capture_default_str();
    app.add_option("--precision", options.precision,
                   "Of products and convolutions; the report says how far outputs are from those of "
                   "f32. auto: the fastest that is accurate on some rows (default: f32)")
        ->type_name("auto|f32|bf16|f16|int8")
        ->check(CLI::IsMember({"auto", "f32", "bf16", "f16", "int8"}));
    app.add_flag("--follow-links", options.follows_links,
                 "Follow links from external data of an ONNX file out of its folder: for caches that keep files in one "
                 "store");
    app.add_option("--max-run-memory", options.most_run_bytes,
                   "Bytes of the values that a network has at a time; a run that needs more is refused (default: "
                   "no limit)")
        ->type_name("BYTES")
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 44));
    app.add_option("--batch", options.batch, "Rows in a batch")
        ->type_name("ROWS")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 30));
    app.add_option("--streams", options.streams, "Streams of each device (default: 4, on a CPU 4 for each worker)")
        ->type_name("COUNT")
        ->check(CLI::Range(1, 256));
    app.add_flag("--progress", options.progress, "Write progress as lines where standard error is no terminal");
    add_network(app, options.network);
}

void add_stream(CLI::App& app, stream_options& options) {
    CLI::Option* const stream = app.add_flag(
        "--stream", options.is_requested,
        "A step of a network with memory for each line of standard input: numbers with commas or spaces between "
        "them, inputs with semicolons. Each step's outputs are written at once. An empty line begins a new sequence");
    app.add_option("--state", options.pairs,
                   "Of --stream: an output that is the next step's input (default: their names say it)")
        ->type_name("OUTPUT=INPUT")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->needs(stream);
}

// For runs of many processes.
void add_distribution(CLI::App& app, command_line& line) {
    CLI::Option* const flag = app.add_flag("--distributed", line.is_distributed,
                                           "Split the rows among the processes that mpirun has started");
    app.add_option_function<int>(
           "--rank-timeout", [&](int seconds) { line.run.rank_timeout = std::chrono::seconds(seconds); },
           "Longest time without a sign of life of a process (default: 60)")
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 7 * 24 * 3600))
        ->needs(flag);
}

void add_tune(CLI::App& app, tune_options& options) {
    app.add_option("shapes", options.shapes, "Products to measure (default: sixty usual ones)")
        ->type_name("ROWSxCOLUMNSxINNER");
    app.add_option("--type", options.type, "Their elements: bf16, f16 or tf32")
        ->type_name("TYPE")
        ->capture_default_str();
    app.add_flag("--plain-b", options.plain_b, "b is [inner, columns], not [columns, inner] as in layers");
    app.add_option("--device", options.device, "cuda:N")->type_name("DEVICE")->capture_default_str();
    app.add_option("--table", options.table, "File for the table (default: in the user's cache)")->type_name("FILE");
}

std::string help_for(CLI::App& app, const std::string& name) {
    app.clear();  // else the help would be that of the command `help`
    if (name.empty()) return app.help();
    for (const CLI::App* each : std::as_const(app).get_subcommands([](const CLI::App*) { return true; })) {
        if (each->get_name() == name) return each->help("sluice");
    }
    refuse_command(app, name);
}

}  // namespace

bool has_json_flag(int argc, const char* const* argv) noexcept {
    return std::any_of(argv + std::min(argc, 1), argv + argc,
                       [](const char* word) { return std::string_view(word) == "--json"; });
}

command_line parse_command_line(int argc, const char* const* argv) {
    command_line line;
    CLI::App app("Runs trained networks on GPUs, or on the CPU where there is none.", "sluice");
    app.set_version_flag("--version", SLUICE_VERSION);
    app.set_help_flag("-h,--help", "Print this help");
    app.footer(std::string(exit_status_help) + "\n");
    app.require_subcommand(1);
    app.fallthrough();
    app.add_flag("--json", line.as_json, "One line of JSON instead of text, also for errors (on standard error)");

    CLI::App* const run = app.add_subcommand("run", "Run a network over an array of inputs");
    add_run(*run, line.run);
    add_stream(*run, line.streaming);
    add_distribution(*run, line);
    CLI::App* const bench =
        app.add_subcommand("bench", "Measure latency and throughput of a network, over batch sizes and devices");
    add_bench(*bench, line.benching);
    CLI::App* const profile = app.add_subcommand("profile", "Measure the time of each node of a network");
    add_profile(*profile, line.profiling);
    CLI::App* const compare = app.add_subcommand("compare", "Compare the outputs of two networks, for the same inputs");
    add_compare(*compare, line.comparing);
    CLI::App* const devices = app.add_subcommand("devices", "List the devices of this machine");
    CLI::App* const inspect = app.add_subcommand("inspect", "Describe a network, also as a picture");
    add_inspect(*inspect, line.inspecting);
    CLI::App* const tune =
        app.add_subcommand("tune", "Measure the algorithms for matrix products on a GPU; later runs use the fastest");
    add_tune(*tune, line.tuning);
    CLI::App* const check = app.add_subcommand("check", "Find what a CUDA program's calls leave without an order");
    add_check(*check, line.checking);
    CLI::App* const serve =
        app.add_subcommand("serve", "Answer requests to networks over HTTP and gRPC (Open Inference Protocol)");
    add_serve(*serve, line.serving);
    CLI::App* const operators =
        app.add_subcommand("operators", "List the operators of ONNX that networks may have, with their versions");
    CLI::App* const completion =
        app.add_subcommand("completion", "Print a script with which a shell completes commands and options");
    std::string shell;
    completion->add_option("shell", shell, listed(known_shells()))->required()->type_name("SHELL");
    CLI::App* const manual = app.add_subcommand("manual", "Print the manual page, for man");
    CLI::App* const help = app.add_subcommand("help", "Describe all commands, or one of them");
    std::string topic;
    help->add_option("command", topic, "The command to describe")->type_name("COMMAND");
    try {
        std::vector<std::string> program;
        app.parse(reversed_words(argc, argv, *check, program));
        if (check->parsed() && !program.empty()) line.checking.program = std::move(program);
        if (run->parsed()) {
            if (line.run.input.empty() && line.run.named_inputs.empty() && !line.streaming.is_requested)
                throw CLI::RequiredError("INPUT");
            // A run over rows has one output.
            if (line.run.named_outputs.size() == 1) line.run.output = line.run.named_outputs.front();
        }
        if (check->parsed() && line.checking.program.empty() && line.checking.replay.empty())
            throw CLI::RequiredError("program or --replay");
        if (serve->parsed() && line.serving.models.empty() && line.serving.repository.empty())
            throw CLI::RequiredError("model or --repository");
    } catch (const CLI::ParseError& error) {
        std::ostringstream text;
        if (app.exit(error, text, text) != 0) refuse_words(app, error);
        line.text = text.str();
        return line;
    }
    if (help->parsed()) line.text = help_for(app, topic);
    if (completion->parsed()) line.text = completion_script(describe_commands(app), shell);
    if (manual->parsed()) line.text = manual_page(describe_commands(app), SLUICE_VERSION);
    if (run->parsed()) line.what = command::run;
    if (bench->parsed()) line.what = command::bench;
    if (profile->parsed()) line.what = command::profile;
    if (compare->parsed()) line.what = command::compare;
    if (devices->parsed()) line.what = command::devices;
    if (inspect->parsed()) line.what = command::inspect;
    if (tune->parsed()) line.what = command::tune;
    if (check->parsed()) line.what = command::check;
    if (serve->parsed()) line.what = command::serve;
    if (operators->parsed()) line.what = command::operators;
    return line;
}

}  // namespace sluice::app
