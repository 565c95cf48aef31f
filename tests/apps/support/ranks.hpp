// SPDX-License-Identifier: Apache-2.0
// Runs the tool as a job of several processes on this machine, under mpirun.
#pragma once

#include <string>
#include <vector>

#include "apps/support/subprocess.hpp"

namespace sluice::app::testing {

// What follows `run --distributed`, for a rank.
using rank_arguments = std::vector<std::string>;

// The tool with these arguments, for tests that put a command before it.
command_line rank_command(const rank_arguments& arguments);

// A job that has been started. Destroyed before wait(), mpirun is killed, and with it the ranks.
class ranks {
public:
    // The same arguments for each of `size` ranks.
    ranks(int size, const rank_arguments& arguments);
    // A rank for each.
    explicit ranks(const std::vector<rank_arguments>& arguments);
    explicit ranks(const std::vector<command_line>& commands);

    // To mpirun.
    void send(int signal) const { mpirun_.send(signal); }
    // To one of the ranks.
    void send_to(int rank, int signal) const;
    bool has_ended() const { return mpirun_.has_ended(); }
    // Blocks until the job ends. One that takes more than a minute is ended, and the test fails.
    outcome wait();

private:
    tool_process mpirun_;
};

inline outcome run_ranks(int size, const rank_arguments& arguments) { return ranks(size, arguments).wait(); }
inline outcome run_ranks(const std::vector<rank_arguments>& arguments) { return ranks(arguments).wait(); }
// Without mpirun.
outcome run_alone(const rank_arguments& arguments);

}  // namespace sluice::app::testing
