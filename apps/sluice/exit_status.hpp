// SPDX-License-Identifier: Apache-2.0
// The exit status of the tool, and which exception gives which.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace sluice::app {

enum exit_status : int {
    success = 0,
    failed = 1,         // a device or the system failed (no space on the disk), or the failure is unforeseen
    bad_input = 2,      // the command line, a file, or a device that is absent or has too little memory
    missed = 3,         // the run is complete, but its outputs miss a requirement; or `check` has found something
    interrupted = 130,  // by a signal
};

// All of them, one a line, for the help.
inline constexpr std::string_view exit_status_help =
    R"(Exit status:
  0    success
  1    a device or the system failed; no output is written unless the message says that it is
  2    the command line, a file or the choice of device is wrong; nothing is written
  3    the outputs miss --tolerance or --min-accuracy; the report is printed, no output is written.
       Of check: it has found something
  130  SIGHUP, SIGINT or SIGTERM; nothing is written)";

// Thrown when the user interrupts.
class interruption : public std::exception {
public:
    const char* what() const noexcept override { return "interrupted"; }
};

// Thrown after the report when a run misses a requirement of the user.
class requirement_missed : public std::exception {
public:
    explicit requirement_missed(std::string why) : why_(std::move(why)) {}
    const char* what() const noexcept override { return why_.c_str(); }

private:
    std::string why_;
};

// The status for an exception.
exit_status status_of(const std::exception& failure) noexcept;

// The exception's text for an error message: one line, with nothing in it that a terminal would act on.
std::string message_of(const std::exception& failure);

}  // namespace sluice::app
