// SPDX-License-Identifier: Apache-2.0
#include "manual_page.hpp"

#include <algorithm>
#include <string_view>

#include "exit_status.hpp"

namespace sluice::app {
namespace {

// Text of roff: a backslash begins a request, as a dot or a quote does at the begin of a line; a plain '-' may become a
// hyphen, which cannot be copied into a command line.
std::string escaped(std::string_view text) {
    std::string made;
    for (const char each : text) {
        const bool is_at_begin = made.empty() || made.back() == '\n';
        if (is_at_begin && (each == '.' || each == '\'')) made += "\\&";
        if (each == '\\') {
            made += "\\e";
        } else if (each == '-') {
            made += "\\-";
        } else {
            made += each;
        }
    }
    return made;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

// A sentence: the help has no full stop.
std::string sentence(const std::string& help) { return help.ends_with('.') ? help : help + "."; }

std::string option_text(const described_option& option) {
    std::string text = ".TP\n";
    if (option.is_argument) {
        text += italic(option.value.empty() ? option.names.front() : option.value);
    } else {
        for (std::size_t i = 0; i < option.names.size(); ++i) text += (i == 0 ? "" : ", ") + bold(option.names[i]);
        if (!option.value.empty()) text += " " + italic(option.value);
    }
    text += "\n" + escaped(sentence(option.help));
    if (!option.otherwise.empty()) text += " Default: " + escaped(option.otherwise) + ".";
    return text + "\n";
}

// "sluice run MODEL [INPUT.npy] [options]"
std::string usage(const described_command& command) {
    std::string text = ".B sluice " + escaped(command.name) + "\n";
    bool has_options = false;
    for (const described_option& each : command.options) {
        if (!each.is_argument) {
            has_options |= each.names.back() != "--help";
            continue;
        }
        text += (each.is_required ? "" : "[") + italic(each.value) + (each.is_required ? "" : "]") + "\n";
    }
    return text + (has_options ? "[" + italic("options") + "]\n" : "");
}

// The lines of the help, "  0    success", as a list.
std::string exit_statuses() {
    std::string text;
    std::string_view rest = exit_status_help;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        if (!line.starts_with("  ")) continue;
        const std::size_t end = line.find(' ', 2);
        text += ".TP\n" + bold(line.substr(2, end - 2)) + "\n" +
                escaped(line.substr(line.find_first_not_of(' ', end))) + ".\n";
    }
    return text;
}

}  // namespace

std::string manual_page(const command_list& all, const std::string& version) {
    std::string text =
        ".\\\" `sluice manual` writes this page from the tool's own description of its command line.\n"
        ".TH SLUICE 1 \"\" \"sluice " +
        escaped(version) + "\" \"User Commands\"\n";
    text += ".SH NAME\nsluice \\- run, measure and look at trained networks\n.SH SYNOPSIS\n";
    for (const described_command& each : all.commands)
        text += (&each == &all.commands.front() ? "" : ".br\n") + usage(each);
    text += ".SH DESCRIPTION\n" + escaped(sentence(all.tool.help)) + "\n.SH OPTIONS OF ALL COMMANDS\n";
    for (const described_option& each : all.tool.options) text += option_text(each);
    text += ".SH COMMANDS\n";
    for (const described_command& each : all.commands) {
        text += ".SS " + escaped(each.name) + "\n" + escaped(sentence(each.help)) + "\n";
        for (const described_option& option : each.options)
            if (option.is_argument || option.names.back() != "--help") text += option_text(option);
    }
    return text + ".SH EXIT STATUS\n" + exit_statuses();
}

}  // namespace sluice::app
