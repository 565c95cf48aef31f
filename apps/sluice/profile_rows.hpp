// SPDX-License-Identifier: Apache-2.0
// From the events of traces to the rows of a profile.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "profile_command.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::app {

// Sums up the commands of runs by the step that they belong to.
class profile_sums {
public:
    // Of one run.
    void add(const trace& run);

    std::size_t runs() const noexcept { return runs_; }
    double span_microseconds() const noexcept { return runs_ == 0 ? 0 : span_us_ / static_cast<double>(runs_); }

    // The rows, and what the steps say of those without commands. The steps' names are distinct. No steps: the rows are
    // of the commands' own names.
    void fill(profile_result& result, const std::vector<nn::network_step>& steps) const;

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

}  // namespace sluice::app
