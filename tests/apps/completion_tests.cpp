// SPDX-License-Identifier: Apache-2.0
// `sluice completion` and `sluice manual` know what the help knows.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing::completion_tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

using words = std::set<std::string>;

std::string output_of(const std::vector<std::string>& arguments) {
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
    return came.out;
}

// What the first group of the expression finds in lines of the help.
words found_in(const std::string& help, const std::string& expression) {
    words found;
    const std::regex pattern(expression, std::regex::multiline);
    for (auto at = std::sregex_iterator(help.begin(), help.end(), pattern); at != std::sregex_iterator(); ++at)
        for (std::size_t i = 1; i < at->size(); ++i)
            if (at->str(i) != "") found.insert(at->str(i));
    return found;
}
words commands_of_help() {
    const std::string help = output_of({"help"});
    return found_in(help.substr(help.find("Subcommands:")), R"(^  ([a-z]+) )");
}
words options_of_help(const std::string& command) {
    return found_in(output_of({"help", command}), R"(^  (?:(-[a-z]),)?(--[a-z-]+))");
}

bool is_installed(const std::string& program) {
    return tool_process(command_line{{"sh", "-c", "command -v " + program}}).wait().exit_code == 0;
}

words lines_of(const std::string& text) {
    words lines;
    std::istringstream from(text);
    for (std::string line; std::getline(from, line);) lines.insert(line);
    return lines;
}

// What bash proposes for the last word, in this folder.
words bash_completes(const std::vector<std::string>& line, const std::string& folder = ".") {
    std::string typed;
    for (const std::string& each : line) typed += " '" + each + "'";
    const std::string script = "cd '" + folder + "' && eval \"$(" + tool_command({}).words[0] +
                               " completion bash)\" && COMP_WORDS=(" + typed +
                               ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && _sluice && "
                               "for each in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$each\"; done";
    const outcome came = tool_process(command_line{{"bash", "--norc", "-c", script}}).wait();
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
    return lines_of(came.out);
}

words fish_completes(const std::string& line) {
    const outcome came =
        tool_process(command_line{{"fish", "--no-config", "-c",
                                   tool_command({}).words[0] + " completion fish | source; complete -C '" + line +
                                       "' | string replace -r '\\t.*' ''"}})
            .wait();
    EXPECT_EQ(came.exit_code, 0) << came;
    return lines_of(came.out);
}

}  // namespace

TEST(tool_completion, of_bash_proposes_the_commands_and_options_of_the_help) {
    const words commands = commands_of_help();
    ASSERT_THAT(commands, IsSupersetOf({"run", "bench", "profile", "compare", "inspect", "completion", "manual"}));
    words first = bash_completes({"sluice", ""});
    for (const char* each : {"-h", "--help", "--version", "--json"}) EXPECT_EQ(first.erase(each), 1u) << each;
    EXPECT_EQ(first, commands);
    for (const std::string& command : commands) {
        words expected = options_of_help(command);
        ASSERT_THAT(expected, Contains("--help"));
        expected.insert("--json");
        EXPECT_EQ(bash_completes({"sluice", command, "-"}), expected) << command;
    }
}

TEST(tool_completion, of_bash_proposes_the_values_of_options) {
    const temporary_directory directory;
    directory.write("a model.onnx", "");
    EXPECT_EQ(bash_completes({"sluice", "be"}), (words{"bench"}));
    EXPECT_EQ(bash_completes({"sluice", "run", "--device", "c"}), (words{"cpu", "cuda"}));
    EXPECT_EQ(bash_completes({"sluice", "run", "--device", ""}), (words{"cpu", "cuda", "auto", "all"}));
    EXPECT_EQ(bash_completes({"sluice", "profile", "--device", ""}), (words{"cpu", "cuda", "auto"}));
    EXPECT_EQ(bash_completes({"sluice", "--json", "inspect", "m", "--activation", "rel"}), (words{"relu"}));
    EXPECT_EQ(bash_completes({"sluice", "completion", ""}), (words{"bash", "zsh", "fish", "-h", "--help", "--json"}));
    EXPECT_THAT(bash_completes({"sluice", "help", "pro"}), Contains("profile"));
    EXPECT_EQ(bash_completes({"sluice", "run", "a"}, directory.path()), (words{"a model.onnx"}));
    EXPECT_EQ(bash_completes({"sluice", "bench", "m", "--plot", "a"}, directory.path()), (words{"a model.onnx"}));
    EXPECT_EQ(bash_completes({"sluice", "bench", "m", "--seconds", ""}, directory.path()), words{});
}

TEST(tool_completion, of_fish_proposes_the_same) {
    if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
    EXPECT_THAT(fish_completes("sluice "), IsSupersetOf(commands_of_help()));
    for (const std::string& command : commands_of_help()) {
        words expected = options_of_help(command);
        expected.insert("--json");
        EXPECT_THAT(fish_completes("sluice " + command + " -"), IsSupersetOf(expected)) << command;
    }
    EXPECT_EQ(fish_completes("sluice profile --device c"), (words{"cpu", "cuda"}));
}

TEST(tool_completion, of_zsh_names_the_same) {
    const std::string script = output_of({"completion", "zsh"});
    EXPECT_TRUE(script.starts_with("#compdef sluice\n"));
    for (const std::string& command : commands_of_help()) {
        EXPECT_THAT(script, HasSubstr("        '" + command + ":"));
        const std::size_t begin = script.find("        " + command + ")\n");
        ASSERT_NE(begin, std::string::npos) << command;
        const std::string part = script.substr(begin, script.find(";;", begin) - begin);
        for (const std::string& option : options_of_help(command)) EXPECT_THAT(part, HasSubstr("'*" + option + "["));
    }
    if (!is_installed("zsh")) return;
    const temporary_directory directory;
    directory.write("_sluice", script);
    const outcome came = tool_process(command_line{{"zsh", "-f", "-n", directory / "_sluice"}}).wait();
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
}

TEST(tool_completion, of_another_shell_is_refused) {
    const outcome came = run_tool({"completion", "tcsh"});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, HasSubstr("'tcsh' is none of bash, zsh, fish"));
    EXPECT_EQ(run_tool({"completion"}).exit_code, 2);
}

TEST(tool_manual, describes_the_commands_and_options_of_the_help) {
    std::string page = output_of({"manual"});
    for (std::size_t at = 0; (at = page.find("\\-", at)) != std::string::npos;) page.erase(at, 1);
    for (const std::string& command : commands_of_help()) {
        EXPECT_THAT(page, HasSubstr("\n.SS " + command + "\n"));
        const std::size_t begin = page.find("\n.SS " + command + "\n");
        const std::size_t end = std::min(page.find("\n.S", begin + 1), page.size());
        for (const std::string& option : options_of_help(command)) {
            if (option == "-h" || option == "--help") continue;
            EXPECT_THAT(page.substr(begin, end - begin), HasSubstr("\\fB" + option + "\\fR"));
        }
    }
    for (const char* each : {"\\fB--json\\fR", "\\fB130\\fR", ".SH EXIT STATUS"}) EXPECT_THAT(page, HasSubstr(each));
}

TEST(tool_manual, is_a_page_that_groff_takes_without_a_warning) {
    if (!is_installed("groff")) GTEST_SKIP() << "groff is not installed";
    const temporary_directory directory;
    directory.write("sluice.1", output_of({"manual"}));
    const outcome came = tool_process(command_line{{"groff", "-man", "-ww", "-Tascii", directory / "sluice.1"}}).wait();
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
    EXPECT_THAT(came.out, Not(HasSubstr("\\f")));
}

TEST(tool_manual, and_the_scripts_are_the_files_that_are_installed) {
    const auto file = [](const std::string& name) {
        std::ifstream from(SLUICE_TOOL_PAGES "/" + name);
        return std::string{std::istreambuf_iterator<char>(from), {}};
    };
    EXPECT_EQ(file("sluice.1"), output_of({"manual"}));
    EXPECT_EQ(file("sluice.bash"), output_of({"completion", "bash"}));
    EXPECT_EQ(file("_sluice"), output_of({"completion", "zsh"}));
    EXPECT_EQ(file("sluice.fish"), output_of({"completion", "fish"}));
}

}  // namespace sluice::app::testing::completion_tests
