// SPDX-License-Identifier: Apache-2.0
// Runs another program, unchanged, and waits for its end.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace sluice::app {

// How a program has ended.
struct program_end {
    int status = 0;          // of its exit; 128 and the number of the signal that ended it
    std::string words = {};  // "the program ended with status 5"; empty for status 0
};

// Thrown after the report when the program that a command has run did not end well. Its status is the tool's.
class program_failed : public std::exception {
public:
    program_failed(std::string why, int status) : why_(std::move(why)), status_(status) {}
    const char* what() const noexcept override { return why_.c_str(); }
    int status() const noexcept { return status_; }

private:
    std::string why_;
    int status_;
};

// Runs the program, which is found in PATH, with its arguments; `words` is not empty. It has the descriptors, the
// environment and the signal actions that this process was given. SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2
// that other processes send to this one meanwhile are sent on to it; those of a terminal reach it by themselves.
// Blocks. One at a time, on the only thread of the process that takes signals. Throws error (errc::invalid_argument)
// for a program that cannot be started.
program_end run_program(const std::vector<std::string>& words);

}  // namespace sluice::app
