// SPDX-License-Identifier: Apache-2.0
// `sluice bench`: how long a call of a network takes, and how many a second there are, for batch sizes and devices.
//
// A call is the network once, from inputs in host memory to outputs there. Latencies are those of one call at a time;
// the throughput is that of several calls in flight, each on a stream.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "latency.hpp"
#include "sample_inputs.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::app {

struct bench_options {
    std::filesystem::path model;
    nn::safetensors_options network;
    sample_options inputs;
    std::vector<std::string> devices;            // none: the default device
    std::vector<std::size_t> batches{1, 8, 64};  // rows
    std::optional<double> seconds;               // of each measurement; none: default_bench_seconds
    std::optional<double> warm_up_seconds;       // before each; none: default_warm_up_seconds
    std::size_t in_flight = 0;                   // calls; 0: 4, or 2 for each worker of a CPU device
    std::optional<std::filesystem::path> plot;   // a picture
};
inline constexpr double default_bench_seconds = 1, default_warm_up_seconds = 0.2;
inline constexpr std::size_t most_calls = 4'000'000;  // of one measurement, whose times are kept

// How a call runs.
enum class call_way : unsigned char {
    sync,   // the network's commands are submitted for each call
    graph,  // they are compiled into a graph once, which each call launches
};
std::string_view to_string(call_way way) noexcept;

struct bench_case {
    std::string device, hardware;  // "cpu:0", its name
    call_way way = call_way::sync;
    std::optional<std::size_t> batch;  // none: the inputs have no dimension for it
    std::string why_not;               // why it cannot run this way; then there are no figures
    latency_summary latency;
    throughput_summary throughput;
};

struct bench_result {
    std::vector<bench_case> cases;
    std::string inputs;  // where their numbers come from
};

// Blocks. Throws file_error, error and interruption as run().
bench_result bench(const bench_options& options);

// For scripts: one line of JSON a case. For people: a table, and what it does not say.
void write_json(const bench_options& options, const bench_result& result, std::ostream& out);
void write_text(const bench_options& options, const bench_result& result, std::ostream& out);
// Latencies and throughputs over the batch size.
void write_plot(const bench_options& options, const bench_result& result, std::ostream& out);

}  // namespace sluice::app
