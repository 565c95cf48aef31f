// SPDX-License-Identifier: Apache-2.0
// `sluice check`: what the calls of a CUDA program leave without an order, from a trace of them.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>

#include "sluice/check/check_trace.hpp"

namespace CLI {
class App;
}

namespace sluice::app {

struct check_command_options {
    std::filesystem::path replay;  // the trace
    bool may = false;
    bool hints = false;
    std::optional<std::filesystem::path> suppressions;
    std::optional<std::filesystem::path> sarif;
};

void add_check(CLI::App& app, check_command_options& options);

// Prints the report. Throws requirement_missed afterwards when something was found; file_error and error for what
// cannot be read or written.
void check_program(const check_command_options& options, bool as_json, std::ostream& out);

}  // namespace sluice::app
