// SPDX-License-Identifier: Apache-2.0
// The command line of the tool: commands, options, help, and what is said about words that it does not know.
#pragma once

#include <filesystem>
#include <string>

#include "run_command.hpp"
#include "serve_command.hpp"
#include "sluice/nn/mlp_model.hpp"
#include "tune_command.hpp"

namespace sluice::app {

enum class command { show_text, run, devices, inspect, operators, tune, serve };

struct command_line {
    command what = command::show_text;
    std::string text;  // the help or the version that was requested
    bool as_json = false;
    run_options run;
    bool is_distributed = false;
    std::filesystem::path model;   // of `inspect`
    nn::mlp_load_options network;  // of `inspect`
    tune_options tuning;
    serve_options serving;
};

// Whether --json is among the words: errors of parsing are reported as JSON too.
bool has_json_flag(int argc, const char* const* argv) noexcept;

// Throws error (errc::invalid_argument) with one sentence: for an unknown command or option, the nearest one and all
// that there are.
command_line parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
