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
#include <vector>

#include "run_command.hpp"
#include "sample_inputs.hpp"
#include "sluice/nn/mlp_model.hpp"

namespace sluice::app {

struct profile_options {
    std::filesystem::path model;
    std::string input;  // the file of the only input; may be empty
    nn::mlp_load_options network;
    sample_options inputs;
    std::string device = "auto";
    std::size_t batch = 0;  // rows; 0: those of the files, or 1
    std::size_t runs = 20;
    std::optional<std::filesystem::path> trace;     // of the last run
    std::optional<std::filesystem::path> timeline;  // likewise
};
inline constexpr std::size_t warm_up_runs = 3;

// Of a run, in the mean.
struct profile_row {
    std::string operators;  // "Conv + BatchNormalization"; of what belongs to no node, the kind of the commands
    std::string node;       // "conv1"; "a to c" where passes made one of several
    std::string commands;   // "convolution", "2 x scale"
    double microseconds = 0;
    double share = 0;  // of the sum of all rows, from 0 to 1
};

struct profile_result {
    device_use device;
    std::optional<std::size_t> batch;
    std::string inputs;                // where their numbers come from
    std::vector<profile_row> rows;     // the longest first
    double microseconds = 0;           // the sum of all rows
    double span_microseconds = 0;      // from the first command's start to the last one's end
    std::size_t nodes = 0;             // of the model
    std::size_t on_host = 0;           // steps that are computed on the host
    std::size_t without_commands = 0;  // steps of the device that need none, such as a change of the shape
    std::string trace_failure;         // why a file with the trace could not be written
};

// Blocks. Throws file_error, error and interruption as run().
profile_result profile(const profile_options& options);

// For scripts: one line of JSON. For people: a table, and how it was measured.
void write_json(const profile_options& options, const profile_result& result, std::ostream& out);
void write_text(const profile_options& options, const profile_result& result, std::ostream& out);

}  // namespace sluice::app
