// SPDX-License-Identifier: Apache-2.0
#include "option_parts.hpp"

#include <algorithm>
#include <utility>

namespace sluice::app {
namespace {

void add_activation(CLI::App& app, const std::string& option, const std::string& help, std::optional<activation>& to) {
    app.add_option_function<std::string>(
           option,
           [option, &to](const std::string& name) {
               to = activation_from_string(name);
               if (!to) {
                   throw CLI::ValidationError(option, "unknown activation; accepted are " + nn::accepted_activations());
               }
           },
           help)
        ->type_name("NAME");
}

}  // namespace

void add_model(CLI::App& app, std::filesystem::path& to) {
    app.add_option("model", to, "Network: a safetensors or ONNX file (MODEL.onnx)")->required()->type_name("MODEL");
}

void add_network(CLI::App& app, nn::safetensors_options& options) {
    add_activation(app, "--activation", "The activation after each hidden layer, where the network's file has none",
                   options.hidden);
    add_activation(app, "--output-activation",
                   "The activation after the last layer, where the file has none (default: none)", options.output);
}

CLI::Option* add_number(CLI::App& app, const std::string& option, const std::string& help, std::optional<double>& to,
                        double least, double most, const std::string& accepted) {
    return app.add_option_function<double>(
        option,
        [=, &to](double value) {
            if (!(value >= least && value <= most)) throw CLI::ValidationError(option, "accepted is " + accepted);
            to = value;
        },
        help);
}

CLI::Option* add_words(CLI::App& app, const std::string& option, const std::string& help,
                       std::vector<std::string>& to) {
    return app.add_option(option, to, help)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_list(CLI::App& app, const std::string& option, const std::string& help,
                      const std::function<void(const std::vector<std::string>&)>& take) {
    const auto split = [option, take](const std::vector<std::string>& given) {
        std::vector<std::string> words;
        for (const std::string& each : given) {
            for (std::size_t at = 0; at <= each.size();) {
                const std::size_t end = std::min(each.find(',', at), each.size());
                words.push_back(each.substr(at, end - at));
                if (words.back().empty()) throw CLI::ValidationError(option, "a word between commas is empty");
                at = end + 1;
            }
        }
        take(words);
    };
    return app.add_option_function<std::vector<std::string>>(option, split, help)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_samples(CLI::App& app, sample_options& options) {
    add_words(app, "--input", "An input from a file; the others are random numbers", options.files)
        ->type_name("[NAME=]INPUT.npy");
    add_words(app, "--size",
              "The length of a dimension of the inputs that has a name and no number; NAME=batch: it is the batch",
              options.lengths)
        ->type_name("NAME=LENGTH");
    app.add_option("--seed", options.seed, "Of the random numbers: the same seed gives the same numbers")
        ->type_name("NUMBER")
        ->capture_default_str();
}

}  // namespace sluice::app
