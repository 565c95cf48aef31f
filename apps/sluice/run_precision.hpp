// SPDX-License-Identifier: Apache-2.0
// `--precision`: the network in the precision that the user wants, and how its outputs differ from those of f32.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "run_command.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/precision_choice.hpp"

namespace sluice::app {

struct used_precision {
    std::string asked;  // "auto"
    nn::rounding_report rounding;
    // The first rows of the inputs, if all inputs have rows in common; else rows is 0, and all of them.
    std::size_t sample_rows = 0, rows = 0;
    nn::output_difference difference;
    std::vector<nn::precision_measurement> measured;  // for auto
};

// Whether it has to be looked at: f32 is what runs without the option.
inline bool asks_for_precision(const run_options& options) {
    return !options.precision.empty() && options.precision != "f32";
}

// Throws errc::invalid_argument unless a run of several processes can do it.
void refuse_precision_of_ranks(const run_options& options);

// Blocks while it measures. `used` is set where the option is given.
nn::network make_in_precision(const run_options& options, nn::model from, const std::vector<nn::any_tensor>& inputs,
                              scheduling_policy& pool, std::optional<used_precision>& used);

std::string to_text(const used_precision& used);

}  // namespace sluice::app
