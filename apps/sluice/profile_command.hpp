// SPDX-License-Identifier: Apache-2.0
// `sluice profile`: the time of each node of a network, from a trace of runs on a device.
//
// A trace has the device's commands. So a row is what the device does at once: the nodes that one command carries out
// are one row, and what is computed beforehand or on the host has none.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "run_command.hpp"
#include "sample_inputs.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/profiling/profile_rows.hpp"

namespace sluice::app {

struct profile_options {
    std::filesystem::path model;
    std::string input;  // the file of the only input; may be empty
    nn::safetensors_options network;
    sample_options inputs;
    std::string device = "auto";
    std::string precision = "f32";  // in which
    std::size_t batch = 0;          // rows; 0: those of the files, or 1
    std::size_t runs = 20;
    std::optional<std::filesystem::path> trace;     // of the last run
    std::optional<std::filesystem::path> timeline;  // likewise
};

struct profile_result : profiling::network_profile {
    device_use device;
    std::optional<std::size_t> batch;
    std::string inputs;         // where their numbers come from
    std::size_t nodes = 0;      // of the model
    std::string trace_failure;  // why a file with the trace could not be written
};

// Blocks. Throws file_error, error and interruption as run().
profile_result profile(const profile_options& options);

// For scripts: one line of JSON. For people: a table, and how it was measured.
void write_json(const profile_options& options, const profile_result& result, std::ostream& out);
void write_text(const profile_options& options, const profile_result& result, std::ostream& out);

}  // namespace sluice::app
