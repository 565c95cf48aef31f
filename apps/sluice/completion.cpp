// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <algorithm>

#include "network_words.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "suggestion.hpp"

namespace sluice::app {
namespace {

// For a shell's single quotes, in which only the quote itself means something.
std::string quoted(const std::string& text, const std::string& quote) {
    std::string made = "'";
    for (const char each : text) made += each == '\'' ? quote : std::string(1, each);
    return made + "'";
}

std::vector<std::string> names_of(const command_list& all) {
    std::vector<std::string> names;
    for (const described_command& each : all.commands) names.push_back(each.name);
    return names;
}

// The command's options, and those of the tool that hold for all commands.
std::vector<described_option> options_of(const described_command& of, const described_command& tool) {
    std::vector<described_option> all = of.options;
    for (const described_option& each : tool.options) {
        const bool is_new = each.names.back() != "--version" &&
                            std::ranges::none_of(all, [&](const auto& other) { return other.names == each.names; });
        if (is_new) all.push_back(each);
    }
    return all;
}

std::vector<std::string> option_names(const std::vector<described_option>& options) {
    std::vector<std::string> names;
    for (const described_option& each : options)
        if (!each.is_argument) names.insert(names.end(), each.names.begin(), each.names.end());
    return names;
}

bool takes_file(const described_command& command) {
    return std::ranges::any_of(command.options, [](const auto& each) { return each.is_argument && each.is_file; });
}
std::vector<std::string> words_of_arguments(const described_command& command) {
    for (const described_option& each : command.options)
        if (each.is_argument && !each.words.empty()) return each.words;
    return {};
}

// --- bash: one function, which looks at the command and at the word before ----------------------------------------

std::string bash_values(const described_command& command) {
    std::string text;
    for (const described_option& each : command.options) {
        if (each.is_argument || each.value.empty()) continue;
        std::vector<std::string> patterns;
        for (const std::string& name : each.names) patterns.push_back(command.name + ":" + name);
        text += "        " + joined(patterns, "|") + ") ";
        if (!each.words.empty()) {
            text += "words=" + quoted(joined(each.words, " "), "'\\''");
        } else {
            text += each.is_file ? "files=yes" : "return";
        }
        text += " ;;\n";
    }
    return text;
}

std::string bash_script(const command_list& all) {
    std::string values, words;
    for (const described_command& each : all.commands) {
        values += bash_values(each);
        std::vector<std::string> known = option_names(options_of(each, all.tool));
        const std::vector<std::string> arguments = words_of_arguments(each);
        known.insert(known.begin(), arguments.begin(), arguments.end());
        words += "            " + each.name + ") words=" + quoted(joined(known, " "), "'\\''") +
                 (takes_file(each) ? "; files=yes" : "") + " ;;\n";
    }
    std::vector<std::string> first = names_of(all);
    const std::vector<std::string> options = option_names(all.tool.options);
    first.insert(first.end(), options.begin(), options.end());
    return "# Completes the words of sluice in bash: source it, or install it as bash-completion says.\n"
           "# shellcheck shell=bash\n"
           "_sluice() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command='' words='' files='' each\n"
           "    for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case $each in\n"
           "            " +
           joined(names_of(all), "|") +
           ") command=$each; break ;;\n"
           "        esac\n"
           "    done\n"
           "    COMPREPLY=()\n"
           "    case $command:$before in\n" +
           values +
           "        *) case $command in\n"
           "            '') words=" +
           quoted(joined(first, " "), "'\\''") + " ;;\n" + words +
           "        esac ;;\n"
           "    esac\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    if [[ $files && $word != -* ]]; then\n"
           "        compopt -o filenames 2> /dev/null\n"
           "        mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\")\n"
           "    fi\n"
           "}\n"
           "complete -F _sluice sluice\n";
}

// --- zsh: _arguments with a specification for each option ---------------------------------------------------------

// A part of a specification: brackets and colons mean something in it.
std::string zsh_words(const std::string& text) {
    std::string made;
    for (const char each : text) {
        if (each == '[' || each == ']' || each == ':' || each == '\\') made += '\\';
        made += each;
    }
    return made;
}

std::string zsh_value(const described_option& option) {
    const std::string message = ":" + zsh_words(option.value) + ":";
    if (!option.words.empty()) {
        std::vector<std::string> words;
        for (const std::string& each : option.words) words.push_back(zsh_words(each));
        return message + "(" + joined(words, " ") + ")";
    }
    return message + (option.is_file ? "_files" : "");
}

std::string zsh_specifications(const std::vector<described_option>& options) {
    std::string text;
    for (const described_option& each : options) {
        if (each.is_argument) {
            text += " \\\n                " + quoted((each.is_required ? "" : ":") + zsh_value(each), "'\\''");
            continue;
        }
        for (const std::string& name : each.names) {
            const std::string specification =
                "*" + name + "[" + zsh_words(each.help) + "]" + (each.value.empty() ? "" : zsh_value(each));
            text += " \\\n                " + quoted(specification, "'\\''");
        }
    }
    return text;
}

std::string zsh_script(const command_list& all) {
    std::string commands, cases;
    for (const described_command& each : all.commands) {
        commands += "        " + quoted(zsh_words(each.name) + ":" + each.help, "'\\''") + "\n";
        cases += "        " + each.name + ")\n            _arguments" + zsh_specifications(options_of(each, all.tool)) +
                 "\n            ;;\n";
    }
    return "#compdef sluice\n"
           "# Completes the words of sluice in zsh: put it as _sluice into a folder of $fpath.\n"
           "_sluice() {\n"
           "    local state line command\n"
           "    local -a commands=(\n" +
           commands +
           "    )\n"
           "    _arguments -C" +
           zsh_specifications(all.tool.options) +
           " \\\n                '1:command:->command' '*::argument:->arguments'\n"
           "    case $state in\n"
           "        command) _describe command commands; return ;;\n"
           "        arguments) command=$words[1] ;;\n"
           "        *) return ;;\n"
           "    esac\n"
           "    case $command in\n" +
           cases +
           "    esac\n"
           "}\n"
           "if [[ $funcstack[1] == _sluice ]]; then _sluice \"$@\"; else compdef _sluice sluice; fi\n";
}

// --- fish: a line for each option -----------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) {
    std::string escaped;
    for (const char each : text) escaped += each == '\\' ? "\\\\" : std::string(1, each);
    return quoted(escaped, "\\'");
}

std::string fish_line(const described_option& option, const std::string& condition) {
    std::string line = "complete -c sluice -n " + condition;
    for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        line += (is_long ? " -l " : " -s ") + name.substr(is_long ? 2 : 1);
    }
    if (!option.words.empty()) {
        line += " -x -a " + fish_quoted(joined(option.words, " "));
    } else if (!option.value.empty()) {
        line += option.is_file ? " -r -F" : " -x";
    }
    return line + " -d " + fish_quoted(option.help) + "\n";
}

std::string fish_script(const command_list& all) {
    std::string text =
        "# Completes the words of sluice in fish: put it as sluice.fish into ~/.config/fish/completions.\n"
        "complete -c sluice -f\n";
    for (const described_option& each : all.tool.options) text += fish_line(each, "__fish_use_subcommand");
    for (const described_command& each : all.commands) {
        text += "complete -c sluice -n __fish_use_subcommand -a " + each.name + " -d " + fish_quoted(each.help) + "\n";
        const std::string condition = "'__fish_seen_subcommand_from " + each.name + "'";
        const std::vector<std::string> arguments = words_of_arguments(each);
        if (takes_file(each)) text += "complete -c sluice -n " + condition + " -F\n";
        if (!arguments.empty())
            text += "complete -c sluice -n " + condition + " -a " + fish_quoted(joined(arguments, " ")) + "\n";
        for (const described_option& option : options_of(each, all.tool))
            if (!option.is_argument) text += fish_line(option, condition);
    }
    return text;
}

}  // namespace

std::vector<std::string> known_shells() { return {"bash", "zsh", "fish"}; }

std::string completion_script(const command_list& commands, const std::string& shell) {
    if (shell == "bash") return bash_script(commands);
    if (shell == "zsh") return zsh_script(commands);
    if (shell == "fish") return fish_script(commands);
    throw error(errc::invalid_argument, in_quotes(shell) + " is none of " + listed(known_shells()), {"completion"});
}

}  // namespace sluice::app
