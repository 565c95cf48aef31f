// SPDX-License-Identifier: Apache-2.0
// The command line of the tool: commands, options, help, and what is said about words that it does not know.
#pragma once

#include <string>

#include "bench_command.hpp"
#include "check_command.hpp"
#include "compare_command.hpp"
#include "inspect_command.hpp"
#include "profile_command.hpp"
#include "run_command.hpp"
#include "run_stream.hpp"
#include "serve_command.hpp"
#include "tune_command.hpp"

namespace sluice::app {

enum class command { show_text, run, bench, profile, compare, devices, inspect, operators, tune, check, serve };

struct command_line {
    command what = command::show_text;
    std::string text;  // what was requested: the help, the version, a script for a shell, the manual page
    bool as_json = false;
    run_options run;
    stream_options streaming;  // of a run
    bool is_distributed = false;
    bench_options benching;
    profile_options profiling;
    compare_options comparing;
    inspect_options inspecting;
    tune_options tuning;
    check_command_options checking;
    serve_options serving;
};

// Whether --json is among the words: errors of parsing are reported as JSON too.
bool has_json_flag(int argc, const char* const* argv) noexcept;

// Throws error (errc::invalid_argument) with one sentence: for an unknown command or option, the nearest one and all
// that there are.
command_line parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
