// SPDX-License-Identifier: Apache-2.0
// Runs the sluice tool as a process of its own, and returns its exit code, signal, output and peak memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "io/support/temporary_directory.hpp"

namespace sluice::app::testing {

struct outcome {
    int exit_code = -1;  // -1 when a signal ended it
    int signal = 0;      // that signal, or 0
    std::string out;
    std::string err;
    std::size_t peak_memory_bytes = 0;  // the largest resident set
};
// For the messages of failed tests.
std::ostream& operator<<(std::ostream& to, const outcome& what);

// A program, found in PATH, and its arguments.
struct command_line {
    std::vector<std::string> words;
};
// The tool, with these arguments.
command_line tool_command(const std::vector<std::string>& arguments);

// A run of the tool. Destroyed before wait(), it is killed.
class tool_process {
public:
    // Throws std::system_error when the tool cannot be started.
    explicit tool_process(const std::vector<std::string>& arguments) : tool_process(tool_command(arguments)) {}
    // The same for another command.
    explicit tool_process(const command_line& command);
    tool_process(const tool_process&) = delete;  // owns the process
    tool_process& operator=(const tool_process&) = delete;
    ~tool_process();

    void send(int signal) const;
    // Whether it has ended by now. Does not block.
    bool has_ended() const;
    // Blocks until it ends. Once only.
    outcome wait();
    pid_t id() const noexcept { return pid_; }

private:
    io::testing::temporary_directory streams_;  // what it prints, in files: no pipe that could fill up
    pid_t pid_ = -1;
};

inline outcome run_tool(const std::vector<std::string>& arguments) { return tool_process(arguments).wait(); }

}  // namespace sluice::app::testing
