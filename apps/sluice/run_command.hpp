// `sluice run`: a trained network over an array of inputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice::app {

struct run_options {
    std::filesystem::path model;
    std::filesystem::path input;
    std::optional<std::filesystem::path> labels;
    std::optional<std::filesystem::path> reference;  // outputs to compare with
    std::optional<std::filesystem::path> output;
    std::optional<std::filesystem::path> trace;     // for Perfetto
    std::optional<std::filesystem::path> timeline;  // a picture
    std::string device = "auto";                    // cpu, cpu:N, cuda, cuda:N, all, auto
    std::size_t batch = 1024;
    std::size_t streams = 0;                // of each device; 0: 4, or 4 a worker on a CPU
    bool progress = false;                  // tell it also where standard error is no terminal
    std::chrono::seconds rank_timeout{60};  // of a distributed run: for how long a rank may be silent
};

struct device_use {
    std::string name;      // "cuda:0"
    std::string hardware;  // "NVIDIA H200"
};

// One process of a distributed run.
struct rank_use {
    std::string host;
    std::size_t rows = 0;
    double seconds = 0;  // for them
    std::size_t streams = 0;
    std::vector<device_use> devices;
};

struct run_result {
    std::size_t rows = 0;
    std::size_t outputs = 0;  // a row
    double seconds = 0;       // from the first batch submitted to the last result
    std::size_t streams = 0;  // of each device
    std::vector<device_use> devices;
    std::vector<rank_use> ranks;              // of a distributed run, by rank; their devices are in `devices` too
    std::optional<std::size_t> correct;       // rows whose largest output is the label
    std::optional<float> largest_difference;  // from the reference; NaN when one is NaN
    std::size_t commands_not_traced = 0;      // of a trace that was full
    std::string trace_failure;                // why a trace or a timeline could not be written; empty when all is well
};

// Throws file_error for files that do not fit, sluice::error for the rest, interruption on SIGINT or SIGTERM.
// Writes the output only when all went well; a trace that fails after that is no reason to lose it (trace_failure).
run_result run(const run_options& options);

// For machines: one line of JSON. For people: a few lines of text.
std::string to_json(const run_options& options, const run_result& result);
std::string to_text(const run_options& options, const run_result& result);

}  // namespace sluice::app
