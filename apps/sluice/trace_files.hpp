// SPDX-License-Identifier: Apache-2.0
// The files that show what ran where and when: a trace and a timeline.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sluice/io/atomic_file.hpp"
#include "sluice/trace/trace.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::app {

// Construct it before the run: then a path that cannot be written is refused before anything is done. Without write(),
// its destructor leaves no file.
class trace_files {
public:
    // Throws file_error when a file cannot be created.
    trace_files(const std::optional<std::filesystem::path>& chrome,
                const std::optional<std::filesystem::path>& timeline);

    // Writes what was recorded, each file whole or not at all. Once only. Returns why it failed; empty when it did not:
    // a run that is complete is not lost for its trace.
    std::string write(trace_recorder& from, const timeline_options& how);
    std::string write(const trace& made, const timeline_options& how);

private:
    std::optional<io::atomic_file> chrome_;
    std::optional<io::atomic_file> timeline_;
};

}  // namespace sluice::app
