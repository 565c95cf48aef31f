// SPDX-License-Identifier: Apache-2.0
// `sluice check`: what the calls of a CUDA program leave without an order, recorded now or before.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sluice/check/check_trace.hpp"

namespace CLI {
class App;
}

namespace sluice::app {

struct check_command_options {
    std::vector<std::string> program;             // with its arguments; or
    std::filesystem::path replay;                 // a trace
    std::optional<std::filesystem::path> keep;    // a folder for the traces of the program
    std::optional<std::filesystem::path> report;  // else standard output
    bool may = false;
    bool hints = false;
    std::size_t orders = 0;  // of the host's threads
    std::optional<std::filesystem::path> suppressions;
    std::optional<std::filesystem::path> sarif;
    std::optional<std::filesystem::path> picture;
};

void add_check(CLI::App& app, check_command_options& options);

// Runs the program, or reads the trace, and prints the report. Throws requirement_missed afterwards when something was
// found, else program_failed when the program did not end well; file_error and error for what cannot be recorded, read
// or written.
void check_program(const check_command_options& options, bool as_json, std::ostream& out);

}  // namespace sluice::app
