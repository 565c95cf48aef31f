// SPDX-License-Identifier: Apache-2.0
// The command line: help, what is said about unknown words, errors as JSON.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "sluice/suggestion.hpp"

namespace sluice::app::testing::command_line_tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_EQ(std::count(came.err.begin(), came.err.end(), '\n'), 1) << came;
    for (const std::string& each : words) EXPECT_THAT(came.err, HasSubstr(each));
}

std::string help_of(const std::vector<std::string>& arguments) {
    const outcome came = run_tool(arguments);
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_EQ(came.err, "");
    return came.out;
}

}  // namespace

TEST(edit_distance, counts_what_must_be_changed) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("run", "run"), 0u);
    EXPECT_EQ(edit_distance("", "run"), 3u);
    EXPECT_EQ(edit_distance("run", ""), 3u);
    EXPECT_EQ(edit_distance("rnu", "run"), 1u);  // exchanged
    EXPECT_EQ(edit_distance("rum", "run"), 1u);
    EXPECT_EQ(edit_distance("inspcet", "inspect"), 1u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(nearest_word, is_near_or_none) {
    const std::vector<std::string> known{"run", "devices", "inspect", "tune", "serve", "operators", "help"};
    EXPECT_EQ(nearest("rnu", known), "run");
    EXPECT_EQ(nearest("device", known), "devices");
    EXPECT_EQ(nearest("inspcet", known), "inspect");
    EXPECT_EQ(nearest("insp", known), "inspect");  // its beginning
    EXPECT_EQ(nearest("walk", known), "");
    EXPECT_EQ(nearest("", known), "");
    EXPECT_EQ(nearest(std::string(1'000'000, 'r'), known), "");
    EXPECT_EQ(nearest("run", {}), "");
}

TEST(tool_command_line, has_help_and_a_version) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--help"}, {"run", "--help"}, {"devices", "--help"}, {"--version"}}) {
        EXPECT_NE(help_of(arguments), "");
    }
}

TEST(tool_command_line, has_a_command_help_that_says_the_same) {
    const std::string all = help_of({"help"});
    EXPECT_EQ(all, help_of({"--help"}));
    const std::vector<std::string> names{"run",  "bench", "profile", "compare",   "devices",    "inspect",
                                         "tune", "check", "serve",   "operators", "completion", "manual"};
    EXPECT_THAT(all, HasSubstr("help"));
    for (const std::string& name : names) {
        EXPECT_THAT(all, HasSubstr(name));
        const std::string one = help_of({"help", name});
        EXPECT_EQ(one, help_of({name, "--help"}));
        EXPECT_THAT(one, HasSubstr("sluice " + name));
    }
    expect_refused({"help", "rnu"}, {"unknown command 'rnu'", "did you mean 'run'?"});
}

TEST(tool_command_line, lists_the_exit_status_in_the_help) {
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"help"}, {"help", "run"}}) {
        const std::string text = help_of(arguments);
        for (const char* each : {"Exit status:", "\n  0 ", "\n  1 ", "\n  2 ", "\n  3 ", "\n  130 "}) {
            EXPECT_THAT(text, HasSubstr(each));
        }
    }
}

TEST(tool_command_line, that_requests_nothing_known_is_refused) {
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                      {"walk"},
                                                      {"run"},
                                                      {"run", digits().model},
                                                      {"inspect"},
                                                      {"devices", "--what"},
                                                      {"run", digits().model, digits().input, "--labels"}}) {
        expect_refused(arguments, {"sluice: "});
    }
}

TEST(tool_command_line, answers_an_unknown_command_with_the_nearest_and_all) {
    expect_refused(
        {"rnu", "a", "b"},
        {"unknown command 'rnu'; did you mean 'run'?",
         "run, bench, profile, compare, devices, inspect, tune, check, serve, operators, completion, manual, help"});
    expect_refused({"walk"}, {"unknown command 'walk'; the commands are run, bench, profile, compare, devices, "
                              "inspect, tune, check, serve, operators, "
                              "completion, manual, help"});
    expect_refused({}, {"a command is missing; the commands are run,"});
    expect_refused({digits().model, digits().input}, {"did you mean 'run " + digits().model + "'?"});
}

TEST(tool_command_line, answers_an_unknown_option_with_the_nearest_and_all) {
    expect_refused({"run", digits().model, digits().input, "--bacth", "5"},
                   {"unknown option '--bacth' of 'run'; did you mean '--batch'?", "--labels", "--streams"});
    expect_refused({"run", digits().model, digits().input, "--bacth=5"}, {"did you mean '--batch'?"});
    expect_refused({"run", "--modle", "m"}, {"unknown option '--modle' of 'run'"});
    expect_refused({"--jsn", "devices"}, {"did you mean '--json'?"});
    expect_refused({"devices", "--batch", "5"}, {"'--batch' of 'devices', which is an option of 'run'"});
    expect_refused({"devices", "-x"}, {"unknown option '-x'"});
    expect_refused({"run", digits().model, digits().input, "another"}, {"'another' is one argument too many"});
}

TEST(tool_command_line, refuses_requirements_that_nothing_can_meet_or_miss) {
    const std::vector<std::string> run{"run", digits().model, digits().input};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), run.begin(), run.end());
        return more;
    };
    expect_refused(with({"--tolerance", "1e-4"}), {"--tolerance", "--reference"});
    expect_refused(with({"--min-accuracy", "0.9"}), {"--min-accuracy", "--labels"});
    for (const char* wrong : {"-1", "nan", "inf", "few"}) {
        expect_refused(with({"--reference", digits().reference, "--tolerance", wrong}), {"--tolerance"});
    }
    for (const char* wrong : {"-0.1", "97", "1.01", "nan"}) {
        expect_refused(with({"--labels", digits().labels, "--min-accuracy", wrong}), {"--min-accuracy"});
    }
    for (const char* wrong : {"0", "-1", "nan", "1e9"}) expect_refused(with({"--measure", wrong}), {"--measure"});
    expect_refused(with({"--measure", "1", "--trace", "t.json"}), {"--measure", "--trace"});
    expect_refused(with({"--measure", "1", "--timeline", "t.svg"}), {"--measure", "--timeline"});
}

TEST(tool_errors, are_one_object_on_standard_error_with_json) {
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"rnu", "--json"},
                                                      {"--json"},
                                                      {"inspect", "/no/such\x1b\"\\\xff", "--json"},
                                                      {"--json", "run", digits().model, digits().model}}) {
        const outcome came = run_tool(arguments);
        EXPECT_EQ(came.exit_code, 2) << came;
        EXPECT_EQ(came.out, "");
        EXPECT_EQ(std::count(came.err.begin(), came.err.end(), '\n'), 1) << came;
        const json report = json::parse(came.err);
        EXPECT_EQ(report["error"]["kind"], "bad_input");
        EXPECT_EQ(report["error"]["status"], 2);
        EXPECT_NE(report["error"]["message"].get<std::string>(), "");
    }
    EXPECT_THAT(run_tool({"rnu"}).err, AllOf(HasSubstr("sluice: "), Not(HasSubstr("{"))));
}

}  // namespace sluice::app::testing::command_line_tests
