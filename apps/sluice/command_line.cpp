// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command_list.hpp"
#include "completion.hpp"
#include "exit_status.hpp"
#include "image_options.hpp"
#include "manual_page.hpp"
#include "measuring_options.hpp"
#include "option_parts.hpp"
#include "sluice/base/error.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/model_config.hpp"
#include "suggestion.hpp"

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
    app.add_option("model", options.model, "Network: a safetensors or ONNX file (MODEL.onnx)")
        ->required()
        ->type_name("MODEL");
    app.add_option("INPUT", options.input,
                   "Rows of features, or the only input of an ONNX network: INPUT.npy, INPUT.npz, INPUT.npz:MEMBER, "
                   "INPUT.csv, INPUT.png, INPUT.jpg, or a folder of pictures")
        ->type_name("INPUT");
    app.add_option("--input", options.named_inputs, "An input of an ONNX network, by its name")
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
                   "Of an ONNX network's products and convolutions; the report says how far outputs are from those of "
                   "f32. auto: the fastest that is accurate on some rows (default: f32)")
        ->type_name("auto|f32|bf16|f16|int8")
        ->check(CLI::IsMember({"auto", "f32", "bf16", "f16", "int8"}));
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

// A number of seconds, kept in milliseconds.
void add_time(CLI::App& app, const std::string& option, const std::string& help, std::chrono::milliseconds& to) {
    const auto shown = std::chrono::duration_cast<std::chrono::seconds>(to).count();
    app.add_option_function<int>(
           option, [&to](int seconds) { to = std::chrono::seconds(seconds); },
           help + " (default: " + std::to_string(shown) + ")")
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 24 * 3600));
}

void add_serve_limits(CLI::App& app, serve_options& options) {
    serve::http_options& http = options.http;
    const auto add_count = [&app](const char* option, const char* help, std::size_t& to, std::size_t most) {
        app.add_option(option, to, help)
            ->type_name("COUNT")
            ->capture_default_str()
            ->check(CLI::Range(std::size_t{1}, most));
    };
    add_count("--threads", "Threads that take requests", http.threads, 256);
    app.add_option_function<std::size_t>(
           "--spin-us", [&http](std::size_t time) { http.spin_time = std::chrono::microseconds(time); },
           "How long such a thread looks for the next request before it sleeps (default: 0)")
        ->type_name("MICROSECONDS")
        ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000}));
    add_count("--connections", "Connections; more are refused", http.connections, 1'000'000);
    add_count("--max-body", "Bytes of a request's body", http.body_bytes, std::size_t{1} << 40);
    add_count("--max-json", "Bytes of a body's JSON", http.json_bytes, std::size_t{1} << 32);
    add_count("--max-memory", "Bytes of all requests' bodies", http.all_bodies_bytes, std::size_t{1} << 44);
    add_time(app, "--header-timeout", "Time in which a request's header must arrive", http.header_time);
    add_time(app, "--body-timeout", "Time in which its body must arrive", http.body_time);
    add_time(app, "--idle-timeout", "Time between two requests of a connection", http.idle_time);
    add_time(app, "--write-timeout", "Time without progress of an answer; over gRPC, time for all of it",
             http.write_time);
}

std::string serve_version() {
    const std::string http = serve::http_supported() ? "yes" : "no: " + serve::why_no_http();
    const std::string grpc = serve::grpc_supported() ? "yes" : "no: " + serve::why_no_grpc();
    const std::string yaml = serve::yaml_supported() ? "yes" : "no: " + serve::why_no_yaml();
    const std::string tls = serve::tls_supported() ? "yes" : "no: " + serve::why_no_tls();
    return std::string(SLUICE_VERSION) + "\nHTTP         " + http + "\ngRPC         " + grpc + "\nTLS          " + tls +
           "\nconfig.yaml  " + yaml;
}

void add_serve_tls(CLI::App& app, serve::tls_files& tls) {
    CLI::Option* const certificate =
        app.add_option(
               "--tls-certificate", tls.certificate,
               "Serve HTTPS, and gRPC with TLS, only, with this certificate: PEM, then those between it and its root")
            ->type_name("FILE");
    CLI::Option* const key = app.add_option("--tls-key", tls.key, "Its private key in PEM, which others may not read")
                                 ->type_name("FILE")
                                 ->needs(certificate);
    certificate->needs(key);
    app.add_option("--tls-client-ca", tls.client_ca, "Clients must show a certificate that leads to one of these")
        ->type_name("FILE")
        ->needs(certificate);
}

void add_serve(CLI::App& app, serve_options& options) {
    app.set_version_flag("--version", serve_version, "Print the version, and what this server was built with");
    CLI::Option* const models =
        app.add_option("model", options.models, "Networks: ONNX or safetensors files, served under the files' names")
            ->type_name("[NAME=]MODEL");
    app.add_option("--repository", options.repository,
                   "A folder of models: NAME/VERSION/model.onnx or NAME/model.onnx, with NAME/config.json or .yaml")
        ->type_name("DIR")
        ->excludes(models);
    app.add_option("--device", options.device, "cpu, cpu:N, cuda, cuda:N or auto")
        ->type_name("DEVICE")
        ->capture_default_str();
    app.add_option("--address", options.http.address, "The address to listen on; 0.0.0.0 is all of IPv4, :: of IPv6")
        ->type_name("ADDRESS")
        ->capture_default_str();
    app.add_option("--port", options.http.port, "The port; 0 is one that is free")
        ->type_name("PORT")
        ->capture_default_str();
    app.add_option("--grpc-port", options.grpc_port,
                   "Answer gRPC too, on this port of the same address; 0 is one that is free (default: no gRPC)")
        ->type_name("PORT");
    add_serve_limits(app, options);
    app.add_option("--tokens", options.tokens,
                   "A file with a token a line; requests must name one (Authorization: Bearer TOKEN)")
        ->type_name("FILE");
    add_serve_tls(app, options.http.tls);
    app.add_option("--user", options.user,
                   "Become this user when the port is bound and the tokens are read; for a server that root starts")
        ->type_name("NAME");
    app.add_flag("--share-port", options.http.shares_port,
                 "Listen where another server does that also has this option, so that it can be replaced");
    app.add_flag("--model-control", options.lets_load,
                 "Let clients load and unload models; without it only where the address is this machine's own");
    app.add_flag(
        "--shared-memory", options.shares_memory,
        "Let clients register shared memory of this machine for inputs and outputs; any that the server may open");
    app.add_flag("--cuda-shared-memory", options.opens_gpu_memory,
                 "Let clients of this machine register memory that they have on a GPU, for inputs and outputs");
    app.add_flag("--log-requests", options.http.log_requests, "Write a line to the log for each answer");
    app.add_option("--otlp", options.http.otlp,
                   "Write spans of requests to this file, as lines of OTLP/JSON; it appears at the end")
        ->type_name("FILE");
    app.add_option("--drain-timeout", options.drain_seconds,
                   "Longest time for accepted requests after SIGTERM; with requests left the status is 1")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(0, 24 * 3600));
    app.add_option_function<std::string>(
           "--log",
           [&options](const std::string& form) {
               if (form != "json" && form != "text") throw CLI::ValidationError("--log", "accepted are text and json");
               options.log_as_json = form == "json";
           },
           "Log lines on standard error: text, or a JSON object each (default: text)")
        ->type_name("FORM");
    app.footer(
        "The first signal (SIGTERM, SIGINT, SIGHUP) ends a server that listens with status 0, when all that it\n"
        "has accepted is answered; a second one ends it at once.\n\n" +
        std::string(exit_status_help) + "\n");
}

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(each->get_name());
    }
    return names;
}

// With two dashes; `app` and what holds for all commands.
std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* each = &app; each != nullptr; each = each->get_parent()) {
        for (const CLI::Option* option : each->get_options()) {
            const bool is_new = !option->get_lnames().empty() &&
                                std::ranges::find(names, "--" + option->get_lnames().front()) == names.end();
            if (is_new) names.push_back("--" + option->get_lnames().front());
        }
    }
    return names;
}

// Followed by a list of what there is.
std::string did_you_mean(const std::string& word) {
    return word.empty() ? std::string("; the ") : "; did you mean '" + word + "'? The ";
}

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why); }

[[noreturn]] void refuse_command(const CLI::App& app, const std::string& word) {
    const std::vector<std::string> names = command_names(app);
    std::error_code ignored;
    const bool is_file = std::filesystem::exists(word, ignored);
    const std::string suggestion = nearest(word, names);
    refuse("unknown command '" + word + "'" + did_you_mean(suggestion.empty() && is_file ? "run " + word : suggestion) +
           "commands are " + listed(names) + " ('sluice help' describes them)");
}

[[noreturn]] void refuse_option(const CLI::App& app, const CLI::App& chosen, const std::string& word) {
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> names = option_names(chosen);
    std::string suggestion = did_you_mean(nearest(option, names));
    std::vector<std::string> others;
    for (const CLI::App* other : app.get_subcommands([](const CLI::App*) { return true; })) {
        const std::vector<std::string> theirs = option_names(*other);
        const bool is_there = std::ranges::find(theirs, option) != theirs.end();
        if (is_there) others.push_back("'" + other->get_name() + "'");
    }
    if (!others.empty()) suggestion = ", which is an option of " + listed(others) + "; the ";
    const bool is_command = &chosen != &app;
    refuse("unknown option '" + option + "'" + (is_command ? " of '" + chosen.get_name() + "'" : "") + suggestion +
           "options are " + listed(names) + " ('sluice help" + (is_command ? " " + chosen.get_name() : "") +
           "' describes them)");
}

// Says what is wrong in our words where a word is unknown, else in those of the parser.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::vector<std::string> unknown = app.remaining(true);
    const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
    const auto option = std::ranges::find_if(unknown, is_option);
    const bool asks_for_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                                dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    if (asks_for_words && chosen.empty()) {
        const auto word = std::ranges::find_if_not(unknown, is_option);
        if (word != unknown.end()) refuse_command(app, *word);
        if (option != unknown.end()) refuse_option(app, app, *option);
        refuse("a command is missing; the commands are " + listed(command_names(app)) +
               " ('sluice help' describes them)");
    }
    const std::string help = "sluice help" + (chosen.empty() ? "" : " " + chosen.front()->get_name());
    if (asks_for_words && option != unknown.end()) refuse_option(app, *chosen.front(), *option);
    if (asks_for_words && !unknown.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        refuse("'" + unknown.front() + "' is one argument too many ('" + help + "' describes the arguments)");
    }
    refuse(std::string(error.what()) + " ('" + help + "' describes the arguments)");
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
        app.parse(argc, argv);
        if (run->parsed()) {
            if (line.run.input.empty() && line.run.named_inputs.empty()) throw CLI::RequiredError("INPUT");
            // A run over rows has one output.
            if (line.run.named_outputs.size() == 1) line.run.output = line.run.named_outputs.front();
        }
        if (serve->parsed() && line.serving.models.empty() && line.serving.repository.empty())
            throw CLI::RequiredError("model or --repository");
    } catch (const CLI::ParseError& error) {
        std::ostringstream text;
        if (app.exit(error, text, text) != 0) refuse(app, error);
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
    if (serve->parsed()) line.what = command::serve;
    if (operators->parsed()) line.what = command::operators;
    return line;
}

}  // namespace sluice::app
