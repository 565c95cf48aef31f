// SPDX-License-Identifier: Apache-2.0
// sluice: runs trained networks and reports the results.

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include "bench_command.hpp"
#include "check_command.hpp"
#include "command_line.hpp"
#include "compare_command.hpp"
#include "describe.hpp"
#include "describe_network.hpp"
#include "distributed/distributed_run.hpp"
#include "error_report.hpp"
#include "exit_status.hpp"
#include "inspect_command.hpp"
#include "network_file.hpp"
#include "overwritten_inputs.hpp"
#include "process_guard.hpp"
#include "profile_command.hpp"
#include "run_command.hpp"
#include "run_network.hpp"
#include "run_stream.hpp"
#include "serve_command.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/worker_process.hpp"
#include "tune_command.hpp"

namespace {

using namespace sluice;

void require_written(std::ostream& out) {
    if (!out.flush()) throw std::runtime_error("cannot write to standard output");
}

template <typename Result>
void report(const app::run_options& options, bool as_json, const Result& result) {
    std::cout << (as_json ? app::to_json(options, result) + "\n" : app::to_text(options, result));
    require_written(std::cout);
    if (!result.missed.empty()) throw app::requirement_missed(result.missed);
    if (!result.trace_failure.empty()) {
        throw std::runtime_error("the run is complete, its trace is not: " + result.trace_failure);
    }
}

void run_as_stream(const app::command_line& line) {
    const auto refuse = [](const char* why) { throw error(errc::invalid_argument, why, {"run"}); };
    if (line.is_distributed) refuse("--stream runs in one process: leave out --distributed");
    if (line.as_json) refuse("--stream writes lines of numbers: leave out --json");
    nn::model network = app::load_model(line.run.model, line.run.network, app::links_of(line.run.follows_links));
    app::run_stream(line.run, line.streaming, std::move(network), std::cin, std::cout);
    if (std::ferror(stdin) != 0) throw std::runtime_error("cannot read standard input");
}

void run_here(const app::run_options& options, bool as_json) {
    nn::model network = app::load_model(options.model, options.network, app::links_of(options.follows_links));
    std::optional<app::row_network> rows;
    if (!app::asks_for_whole_arrays(options)) rows = app::by_rows(network);
    if (rows)
        report(options, as_json, app::run(options, *std::move(rows)));
    else
        report(options, as_json, app::run_network(options, std::move(network)));
}

template <typename Options, typename Result>
void write(const Options& options, const Result& result, bool as_json) {
    as_json ? write_json(options, result, std::cout) : write_text(options, result, std::cout);
    require_written(std::cout);
}

void bench(const app::bench_options& options, bool as_json) { write(options, app::bench(options), as_json); }

void profile(const app::profile_options& options, bool as_json) {
    const app::profile_result result = app::profile(options);
    write(options, result, as_json);
    if (!result.trace_failure.empty())
        throw std::runtime_error("the profile is complete, its trace is not: " + result.trace_failure);
}

void compare(const app::compare_options& options, bool as_json) {
    const app::compare_result result = app::compare(options);
    write(options, result, as_json);
    if (!result.missed.empty()) throw app::requirement_missed(result.missed);
}

int run(const app::command_line& line) {
    app::refuse_overwritten_inputs(line);
    switch (line.what) {
        case app::command::show_text: std::cout << line.text; break;
        case app::command::devices: app::describe_devices(runtime(), line.as_json, std::cout); break;
        case app::command::bench: bench(line.benching, line.as_json); break;
        case app::command::profile: profile(line.profiling, line.as_json); break;
        case app::command::compare: compare(line.comparing, line.as_json); break;
        case app::command::inspect: app::inspect(line.inspecting, line.as_json, std::cout); break;
        case app::command::operators: app::describe_operators(line.as_json, std::cout); break;
        case app::command::tune: app::tune(line.tuning, line.as_json, std::cout); break;
        case app::command::check: app::check_program(line.checking, line.as_json, std::cout); break;
        case app::command::serve: app::serve_models(line.serving, std::cerr); break;
        case app::command::run:
            if (line.streaming.is_requested) {
                run_as_stream(line);
                break;
            }
            if (line.is_distributed) return app::run_distributed(line.run, line.as_json, std::cout, std::cerr);
            run_here(line.run, line.as_json);
            break;
    }
    require_written(std::cout);
    return app::success;
}

}  // namespace

int main(int argc, char** argv) {
    // Of `serve --workers`, which starts it; not for people, so it is in no help.
    if (argc == 2 && std::string_view(argv[1]) == "serve-worker") return serve::serve_as_worker();
    app::guard_process();  // before anything opens a file
    app::report_errors_as_json(app::has_json_flag(argc, argv));
    try {
        const app::command_line line = app::parse_command_line(argc, argv);
        app::report_errors_as_json(line.as_json);  // a word of the program of `check` may look like the flag
        return run(line);
    } catch (const std::exception& failure) {
        std::cerr << app::error_line(app::message_of(failure), app::status_of(failure));
        return app::status_of(failure);
    }
}
