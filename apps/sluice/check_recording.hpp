// SPDX-License-Identifier: Apache-2.0
// A run of a CUDA program with the recorder that writes traces of its calls.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "sluice/io/process_files.hpp"

namespace sluice::app {

class recorded_run {
public:
    // Runs the program and waits for it, as run_program() does. `keep` is the folder for the traces: absent or empty;
    // without one, a temporary folder that the destructor removes. Throws error (errc::invalid_argument) where this
    // build has no recorder, where there is no GPU, where another library is to be injected already, and for a program
    // that cannot be started.
    recorded_run(const std::vector<std::string>& program, const std::optional<std::filesystem::path>& keep);
    recorded_run(const recorded_run&) = delete;  // owns the folder
    recorded_run& operator=(const recorded_run&) = delete;
    ~recorded_run();

    // One of each process that has used CUDA.
    const std::vector<std::filesystem::path>& traces() const noexcept { return traces_; }
    const program_end& end() const noexcept { return end_; }

private:
    void remove_folder() noexcept;

    std::filesystem::path folder_;
    bool is_kept_ = false;
    program_end end_;
    std::vector<std::filesystem::path> traces_;
    std::vector<io::known_temporary> known_;  // a signal during the check removes the traces
};

}  // namespace sluice::app
