// SPDX-License-Identifier: Apache-2.0
// network_profile, profile_sums: from the events of traces to the time of each node.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::profiling {

// Of a run, in the mean.
struct profile_row {
    std::string operators;    // "Conv + BatchNormalization"; of what belongs to no node, the kind of the commands
    std::string node;         // "conv1"; "a to c" where passes made one of several
    std::string commands;     // "convolution", "2 x scale"
    double microseconds = 0;  // the time of its commands, by the device's clock
    double share = 0;         // of the sum of all rows, from 0 to 1
};

struct network_profile {
    std::vector<profile_row> rows;     // the longest first
    double microseconds = 0;           // the sum of all rows
    double span_microseconds = 0;      // from the first command's start to the last one's end
    std::size_t on_host = 0;           // steps that are computed on the host
    std::size_t without_commands = 0;  // steps of the device that need none, such as a change of the shape
};

// Sums up the commands of runs by the step that they belong to.
class profile_sums {
public:
    // Of one run. Costs O(n log n) in the number of events.
    void add(const trace& run);

    std::size_t runs() const noexcept { return runs_; }  // the number of runs that were added
    // The time of a run, in the mean, from the first command's start to the last one's end. Costs O(1).
    double span_microseconds() const noexcept { return runs_ == 0 ? 0 : span_us_ / static_cast<double>(runs_); }

    // The rows, and what the steps say of those without commands. The steps' names are distinct. No steps: the rows are
    // of the commands' own names. Costs O(n log n) in the number of rows and steps.
    void fill(network_profile& result, const std::vector<nn::network_step>& steps) const;

private:
    struct commands {
        double us = 0;
        std::map<std::string, std::size_t> counts;  // by name
        trace_kind kind = trace_kind::kernel;
    };
    static std::string text_of(const commands& of, std::size_t runs);

    std::map<std::string, commands> by_operation_;  // those that belong to a step
    std::map<std::string, commands> by_kind_;       // the others
    double span_us_ = 0;
    std::size_t runs_ = 0;
};

}  // namespace sluice::profiling
