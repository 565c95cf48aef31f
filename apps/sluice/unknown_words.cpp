// SPDX-License-Identifier: Apache-2.0
#include "unknown_words.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "sluice/base/error.hpp"
#include "suggestion.hpp"

namespace sluice::app {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(each->get_name());
    }
    return names;
}

// With two dashes; `app` and what holds for all commands.
std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* each = &app; each != nullptr; each = each->get_parent()) {
        for (const CLI::Option* option : each->get_options()) {
            const bool is_new = !option->get_lnames().empty() &&
                                std::ranges::find(names, "--" + option->get_lnames().front()) == names.end();
            if (is_new) names.push_back("--" + option->get_lnames().front());
        }
    }
    return names;
}

// Followed by a list of what there is.
std::string did_you_mean(const std::string& word) {
    return word.empty() ? std::string("; the ") : "; did you mean '" + word + "'? The ";
}

[[noreturn]] void refuse_words(const std::string& why) { throw error(errc::invalid_argument, why); }

[[noreturn]] void refuse_option(const CLI::App& app, const CLI::App& chosen, const std::string& word) {
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> names = option_names(chosen);
    std::string suggestion = did_you_mean(nearest(option, names));
    std::vector<std::string> others;
    for (const CLI::App* other : app.get_subcommands([](const CLI::App*) { return true; })) {
        const std::vector<std::string> theirs = option_names(*other);
        const bool is_there = std::ranges::find(theirs, option) != theirs.end();
        if (is_there) others.push_back("'" + other->get_name() + "'");
    }
    if (!others.empty()) suggestion = ", which is an option of " + listed(others) + "; the ";
    const bool is_command = &chosen != &app;
    refuse_words("unknown option '" + option + "'" + (is_command ? " of '" + chosen.get_name() + "'" : "") +
                 suggestion + "options are " + listed(names) + " ('sluice help" +
                 (is_command ? " " + chosen.get_name() : "") + "' describes them)");
}

}  // namespace

void refuse_command(const CLI::App& app, const std::string& word) {
    const std::vector<std::string> names = command_names(app);
    std::error_code ignored;
    const bool is_file = std::filesystem::exists(word, ignored);
    const std::string suggestion = nearest(word, names);
    refuse_words("unknown command '" + word + "'" +
                 did_you_mean(suggestion.empty() && is_file ? "run " + word : suggestion) + "commands are " +
                 listed(names) + " ('sluice help' describes them)");
}

void refuse_words(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::vector<std::string> unknown = app.remaining(true);
    const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
    const auto option = std::ranges::find_if(unknown, is_option);
    const bool asks_for_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                                dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    if (asks_for_words && chosen.empty()) {
        const auto word = std::ranges::find_if_not(unknown, is_option);
        if (word != unknown.end()) refuse_command(app, *word);
        if (option != unknown.end()) refuse_option(app, app, *option);
        refuse_words("a command is missing; the commands are " + listed(command_names(app)) +
                     " ('sluice help' describes them)");
    }
    const std::string help = "sluice help" + (chosen.empty() ? "" : " " + chosen.front()->get_name());
    if (asks_for_words && option != unknown.end()) refuse_option(app, *chosen.front(), *option);
    if (asks_for_words && !unknown.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        refuse_words("'" + unknown.front() + "' is one argument too many ('" + help + "' describes the arguments)");
    }
    refuse_words(std::string(error.what()) + " ('" + help + "' describes the arguments)");
}

}  // namespace sluice::app
