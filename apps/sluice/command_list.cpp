// SPDX-License-Identifier: Apache-2.0
#include "command_list.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "completion.hpp"
#include "sluice/nn/safetensors.hpp"

namespace sluice::app {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& between) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(between, at), text.size());
        if (end > at) words.push_back(text.substr(at, end - at));
        at = end + between.size();
    }
    return words;
}

// What the parser calls the value, without the ranges that checks add: "ROWS:INT in [1 - 256]".
std::string value_of(const CLI::Option& option) {
    if (option.get_type_size_max() == 0) return {};  // a flag
    const std::string name = option.get_type_name();
    return name.substr(0, name.find(':'));
}

// Those words that are in the help: not every command takes every device.
std::vector<std::string> named_in(const std::string& help, const std::vector<std::string>& words) {
    std::vector<std::string> named;
    for (const std::string& each : words) {
        const std::size_t at = (" " + help).find(" " + each);
        if (at != std::string::npos) named.push_back(each);
    }
    return named;
}

// Those of a set that a check names, {a,b}; else what the name of the value stands for in all commands.
std::vector<std::string> words_of(const CLI::Option& option, const std::vector<std::string>& commands) {
    const std::string whole = option.get_type_name();
    const std::size_t open = whole.find('{'), close = whole.find('}');
    if (open != std::string::npos && close != std::string::npos)
        return split(whole.substr(open + 1, close - open - 1), ",");
    const std::string value = value_of(option);
    if (value == "DEVICE") return named_in(option.get_description(), {"auto", "cpu", "cuda", "all"});
    if (value == "NAME") return split(nn::accepted_activations(), ", ");
    if (value == "TYPE") return {"bf16", "f16", "tf32"};
    if (value == "COMMAND") return commands;
    if (value == "SHELL") return known_shells();
    return {};
}

bool is_file(const std::string& value) {
    return value == "MODEL" || value == "FILE" || value == "PROGRAM" || value.find('.') != std::string::npos;
}

described_option describe(const CLI::Option& from, const std::vector<std::string>& commands) {
    described_option made;
    for (const std::string& each : from.get_snames()) made.names.push_back("-" + each);
    for (const std::string& each : from.get_lnames()) made.names.push_back("--" + each);
    made.is_argument = from.get_positional();
    if (made.is_argument) made.names = {from.get_name()};
    made.value = value_of(from);
    made.help = from.get_description();
    made.otherwise = from.get_default_str();
    made.is_required = from.get_required();
    made.words = words_of(from, commands);
    made.is_file = is_file(made.value);
    return made;
}

described_command describe(const CLI::App& from, const std::vector<std::string>& commands) {
    described_command made{from.get_name(), from.get_description(), {}};
    for (const CLI::Option* each : from.get_options()) made.options.push_back(describe(*each, commands));
    return made;
}

}  // namespace

command_list describe_commands(const CLI::App& app) {
    const auto all = app.get_subcommands([](const CLI::App*) { return true; });
    std::vector<std::string> names;
    for (const CLI::App* each : all) names.push_back(each->get_name());
    command_list made{describe(app, names), {}};
    for (const CLI::App* each : all) made.commands.push_back(describe(*each, names));
    return made;
}

}  // namespace sluice::app
