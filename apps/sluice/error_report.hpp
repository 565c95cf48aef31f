// SPDX-License-Identifier: Apache-2.0
// Errors on standard error: one line of text, "sluice: WHY", or with --json one line of JSON:
//
//     {"error":{"kind":"bad_input","message":"WHY","status":2}}
//
// Standard output has reports only, so that it is empty or whole.
#pragma once

#include <string>
#include <string_view>

#include "exit_status.hpp"

namespace sluice::app {

// From now on errors are JSON, or text again.
void report_errors_as_json(bool yes) noexcept;

// The line for an error, with its end of line. `message` may hold anything.
std::string error_line(std::string_view message, exit_status status);

// Writes the line for an error from a handler of signals. The parts make up the message; each is valid UTF-8 without
// control characters. Nothing can be done where standard error takes no more.
void write_error_from_handler(std::string_view first, std::string_view second, exit_status status) noexcept;

}  // namespace sluice::app
