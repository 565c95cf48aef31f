// sluice: runs trained networks, and tells what it finds.

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "describe.hpp"
#include "distributed/distributed_run.hpp"
#include "exit_status.hpp"
#include "run_command.hpp"
#include "sluice/runtime/runtime.hpp"
#include "tune_command.hpp"

namespace {

using namespace sluice;

void add_run(CLI::App& app, app::run_options& options) {
    app.add_option("model", options.model, "Network: a safetensors file")->required()->type_name("MODEL.safetensors");
    app.add_option("input", options.input, "Rows of features: a NumPy file")->required()->type_name("INPUT.npy");
    app.add_option("--labels", options.labels, "True classes; prints the accuracy")->type_name("L.npy");
    app.add_option("--reference", options.reference, "Outputs to compare with; prints the largest difference")
        ->type_name("REF.npy");
    app.add_option("--output", options.output, "Where the outputs go; appears whole or not at all")
        ->type_name("OUT.npy");
    app.add_option("--trace", options.trace, "Where a trace of the run goes, for ui.perfetto.dev or chrome://tracing")
        ->type_name("OUT.json");
    app.add_option("--timeline", options.timeline, "Where a picture of the run goes: what ran on which stream when")
        ->type_name("OUT.svg");
    app.add_option("--device", options.device, "cpu, cpu:N, cuda, cuda:N, all (GPUs, or else CPUs) or auto")
        ->capture_default_str();
    app.add_option("--batch", options.batch, "Rows a batch")->capture_default_str()->check(CLI::Range(1, 1 << 30));
    app.add_option("--streams", options.streams, "Streams of each device (default: 4, on a CPU 4 a worker)")
        ->check(CLI::Range(1, 256));
    app.add_flag("--progress", options.progress, "Tell of progress where standard error is no terminal, too");
}

// For runs by many processes.
void add_distribution(CLI::App& app, bool& is_distributed, app::run_options& options) {
    CLI::Option* const flag =
        app.add_flag("--distributed", is_distributed, "Share the rows out among the processes that mpirun has started");
    app.add_option_function<int>(
           "--rank-timeout", [&](int seconds) { options.rank_timeout = std::chrono::seconds(seconds); },
           "Longest time that a process may give no sign of life (default: 60)")
        ->type_name("SECONDS")
        ->check(CLI::Range(1, 7 * 24 * 3600))
        ->needs(flag);
}

void add_tune(CLI::App& app, app::tune_options& options) {
    app.add_option("shapes", options.shapes, "Products to measure (default: sixty usual ones)")
        ->type_name("ROWSxCOLUMNSxINNER");
    app.add_option("--type", options.type, "Their elements: bf16, f16 or tf32")->capture_default_str();
    app.add_flag("--plain-b", options.plain_b, "b is [inner, columns], not [columns, inner] as in layers");
    app.add_option("--device", options.device, "cuda:N")->capture_default_str();
    app.add_option("--table", options.table, "Where the table goes (default: the user's cache)")->type_name("FILE");
}

int run(int argc, char** argv) {
    CLI::App app("Runs trained networks on GPUs, or on the CPU where there is none.", "sluice");
    app.set_version_flag("--version", SLUICE_VERSION);
    app.require_subcommand(1);
    app.fallthrough();
    bool as_json = false;
    app.add_flag("--json", as_json, "One line of JSON instead of text");

    app::run_options options;
    CLI::App* const run_command = app.add_subcommand("run", "Run a network over an array of inputs");
    add_run(*run_command, options);
    bool is_distributed = false;
    add_distribution(*run_command, is_distributed, options);
    CLI::App* const devices_command = app.add_subcommand("devices", "List the devices of this machine");
    CLI::App* const inspect_command = app.add_subcommand("inspect", "Describe a network");
    std::filesystem::path model;
    inspect_command->add_option("model", model, "Network")->required()->type_name("MODEL.safetensors");
    app::tune_options tuning;
    CLI::App* const tune_command =
        app.add_subcommand("tune", "Measure which way matrix products go best on a GPU, for later runs");
    add_tune(*tune_command, tuning);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? app::success : app::bad_input;
    }

    std::string trace_failure;
    if (devices_command->parsed()) app::describe_devices(runtime(), as_json, std::cout);
    if (inspect_command->parsed()) app::describe_model(model, as_json, std::cout);
    if (tune_command->parsed()) app::tune(tuning, as_json, std::cout);
    if (run_command->parsed() && is_distributed) {
        return app::run_distributed(options, as_json, std::cout, std::cerr);
    }
    if (run_command->parsed()) {
        const app::run_result result = app::run(options);
        std::cout << (as_json ? app::to_json(options, result) + "\n" : app::to_text(options, result));
        trace_failure = result.trace_failure;
    }
    if (!std::cout.flush()) throw std::runtime_error("cannot write to standard output");
    if (!trace_failure.empty()) throw std::runtime_error("the run is complete, its trace is not: " + trace_failure);
    return app::success;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error to tell, not to die of
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::cerr << "sluice: " << failure.what() << '\n';
        return app::status_of(failure);
    }
}
