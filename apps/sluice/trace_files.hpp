// The files that tell what ran where and when: a trace and a timeline.
#pragma once

#include <filesystem>
#include <optional>

#include "sluice/nn/atomic_file.hpp"
#include "sluice/runtime/trace.hpp"

namespace sluice::app {

// Made before the run, so that a path that cannot be written is refused before anything is done. Destroyed without
// write(), no file is left.
class trace_files {
public:
    // Throws file_error when a file cannot be made.
    trace_files(const std::optional<std::filesystem::path>& chrome,
                const std::optional<std::filesystem::path>& timeline);

    // Writes each file whole or not at all. Once only. Throws file_error.
    void write(const trace& made, const timeline_options& how);

private:
    std::optional<nn::atomic_file> chrome_;
    std::optional<nn::atomic_file> timeline_;
};

}  // namespace sluice::app
