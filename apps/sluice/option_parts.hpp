// SPDX-License-Identifier: Apache-2.0
// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sample_inputs.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::app {

// The file of a network: the first argument that is no option.
void add_model(CLI::App& app, std::filesystem::path& to);

// What the file of a network need not say: --activation, --output-activation.
void add_network(CLI::App& app, nn::safetensors_options& options);

// A number from `least` to `most`. Unlike CLI::Range it refuses NaN.
CLI::Option* add_number(CLI::App& app, const std::string& option, const std::string& help, std::optional<double>& to,
                        double least, double most, const std::string& accepted);

// One word each time the option is given; it may be given several times.
CLI::Option* add_words(CLI::App& app, const std::string& option, const std::string& help, std::vector<std::string>& to);

// Words between commas; the option may be given several times. No word is empty.
CLI::Option* add_list(CLI::App& app, const std::string& option, const std::string& help,
                      const std::function<void(const std::vector<std::string>&)>& take);

// Inputs from files, and what is to be known of those without: --input, --size, --seed.
void add_samples(CLI::App& app, sample_options& options);

}  // namespace sluice::app
