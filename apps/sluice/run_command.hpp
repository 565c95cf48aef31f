// SPDX-License-Identifier: Apache-2.0
// `sluice run`: a trained network over an array of inputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "row_network.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::app {

struct run_options {
    std::filesystem::path model;
    nn::safetensors_options network;  // activations that the model's file does not say
    std::filesystem::path input;
    std::vector<std::string> named_inputs;   // of a network of any operators: NAME=FILE
    std::vector<std::string> named_outputs;  // likewise, or one FILE
    std::string csv, image;                  // how tables and pictures are read: words KEY=VALUE
    std::optional<std::filesystem::path> labels;
    std::optional<std::filesystem::path> reference;  // outputs to compare with
    std::optional<double> tolerance;                 // largest difference from them that is no failure
    std::optional<double> min_accuracy;              // smallest accuracy that is no failure, from 0 to 1
    std::optional<std::filesystem::path> output;     // of a run row by row
    std::vector<std::filesystem::path> outputs_of_network;
    std::optional<std::filesystem::path> trace;     // for Perfetto
    std::optional<std::filesystem::path> timeline;  // a picture
    std::string precision;                          // auto, f32, bf16, f16, int8; empty: f32, and nothing is said of it
    std::string device = "auto";                    // cpu, cpu:N, cuda, cuda:N, all, auto
    bool follows_links = false;                     // to external data of an ONNX file, out of its folder
    std::size_t most_run_bytes = 0;                 // of the values of a run or a batch (nn::run_limit); 0: no limit
    std::size_t batch = 1024;
    std::size_t streams = 0;                // of each device; 0: 4, or 4 a worker on a CPU
    bool progress = false;                  // write it as lines where standard error is no terminal
    std::optional<double> measure_seconds;  // repeat the run for at least this time to measure the throughput
    std::chrono::seconds rank_timeout{60};  // of a distributed run: the longest time without a sign of life of a rank
};

struct device_use {
    std::string name;             // "cuda:0"
    std::string hardware;         // "NVIDIA H200"
    std::string why_no_gpu = {};  // of a CPU that was taken because a tool built with CUDA found no GPU
};

// Passes over all rows after the first one: rows are read and run, outputs come to the host and are dropped.
struct run_measurement {
    std::size_t passes = 0;
    double seconds = 0;  // of all passes together
};

// One process of a distributed run.
struct rank_use {
    std::string host;
    std::size_t rows = 0;
    double seconds = 0;  // for these rows
    std::size_t streams = 0;
    std::vector<device_use> devices;
};

// What every run reports.
struct run_outcome {
    std::size_t rows = 0;
    // Row by row: from the first batch submitted to the last result; reads, compares and writes rows
    // meanwhile; loading the network and the warm-up come before, moving the output to its name after. Of another
    // network: from the inputs in host memory to the outputs there, the network being on the device.
    double seconds = 0;
    std::optional<std::size_t> correct;       // rows whose largest output is the label
    std::optional<float> largest_difference;  // from the reference; NaN when one of two values is NaN
    std::size_t commands_not_traced = 0;      // of a trace that was full
    std::string trace_failure;                // why a trace or a timeline could not be written; empty when all is well
    std::string missed;                       // the requirements that it misses, in words; then nothing was written
};

// Of a network that runs row by row.
struct run_result : run_outcome {
    std::string output;       // the name of the network's output
    std::size_t outputs = 0;  // of it, a row
    std::optional<run_measurement> measured;
    std::size_t streams = 0;  // of each device
    std::vector<device_use> devices;
    std::vector<rank_use> ranks;  // of a distributed run, by rank; their devices are in `devices` too
};

// A shorter run gives no throughput: the clock, a page that is read for the first time or a busy core would decide it.
inline constexpr double least_measurable_seconds = 0.1;

// Blocks. Throws file_error for files that do not fit, sluice::error for the rest, interruption on SIGHUP, SIGINT or
// SIGTERM. Writes the output only when all went well and no requirement is missed; a trace that fails after that is no
// reason to lose it (trace_failure).
run_result run(const run_options& options, row_network network);

// Rows a second: of the measurement, or of the run itself when it took long enough. Empty when it did not.
std::optional<double> throughput_of(const run_result& result) noexcept;

// For scripts: one line of JSON. For people: a few lines of text.
std::string to_json(const run_options& options, const run_result& result);
std::string to_text(const run_options& options, const run_result& result);

}  // namespace sluice::app
