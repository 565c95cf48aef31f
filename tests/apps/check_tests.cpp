// SPDX-License-Identifier: Apache-2.0
// `sluice check`: what it prints, writes and refuses.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "check/support/simulated_driver.hpp"

namespace sluice::app::testing::check_tests {
namespace {

using ::testing::HasSubstr;

// A kernel that reads, perhaps without an order, what another stream writes.
std::string trace_of(bool is_ordered) {
    check::testing::simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    cuda.fill_async(x, a);
    if (is_ordered) cuda.order(a, b);
    cuda.launch("use", b, {check::testing::reads(x)});
    return cuda.trace();
}

}  // namespace

TEST(tool_check, ends_with_3_when_something_was_found) {
    const temporary_directory target;
    const std::string file = target.write("racy.trace", trace_of(false));
    const outcome came = run_tool({"check", "--replay", file});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_THAT(came.out, HasSubstr("race: fill of 4096 bytes on stream 1 writes what kernel use on stream 2 reads"));
    EXPECT_THAT(came.err, HasSubstr("1 finding"));
}

TEST(tool_check, ends_with_0_when_all_is_ordered) {
    const temporary_directory target;
    const outcome came = run_tool({"check", "--replay", target.write("clean.trace", trace_of(true))});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr("0 findings in 7 calls"));
    EXPECT_EQ(came.err, "");
}

TEST(tool_check, prints_json_and_writes_sarif) {
    const temporary_directory target;
    const std::string file = target.write("racy.trace", trace_of(false));
    const std::string sarif = target / "out.sarif";
    const outcome came = run_tool({"check", "--json", "--replay", file, "--sarif", sarif});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_EQ(nlohmann::json::parse(came.out)["findings"].size(), 1u);
    EXPECT_EQ(nlohmann::json::parse(io::testing::read_file(sarif))["version"], "2.1.0");
    const outcome refused = run_tool({"check", "--replay", file, "--sarif", file});
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr("would replace an input"));
}

TEST(tool_check, leaves_out_what_is_suppressed) {
    const temporary_directory target;
    const std::string file = target.write("racy.trace", trace_of(false));
    const outcome came =
        run_tool({"check", "--replay", file, "--suppress", target.write("known", "# ours\nrace: kernel use\n")});
    EXPECT_EQ(came.exit_code, 0) << came;
    EXPECT_THAT(came.out, HasSubstr("1 finding suppressed"));
    const outcome refused = run_tool({"check", "--replay", file, "--suppress", target.write("wrong", "races: *\n")});
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr("KIND: PATTERN"));
}

TEST(tool_check, refuses_what_is_no_trace_and_options_that_do_not_exist) {
    const temporary_directory target;
    const outcome came = run_tool({"check", "--replay", target.write("x", "{\"sluice_check_trace\":1}\n{}\n")});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err, HasSubstr("line 2"));
    EXPECT_EQ(run_tool({"check", "--replay", target / "absent"}).exit_code, 2);
    EXPECT_EQ(run_tool({"check", "--replay", std::string(target.path())}).exit_code, 2);
    const outcome exact = run_tool({"check", "--exact", "--replay", target / "x"});
    EXPECT_EQ(exact.exit_code, 2) << exact;
    EXPECT_THAT(exact.err, HasSubstr("unknown option '--exact'"));
}

TEST(tool_check, refuses_a_program_and_a_trace_and_neither) {
    const outcome exact = run_tool({"check", "--exact", "/bin/true"});
    EXPECT_EQ(exact.exit_code, 2) << exact;
    EXPECT_THAT(exact.err, HasSubstr("unknown option '--exact'"));
    EXPECT_EQ(run_tool({"check"}).exit_code, 2);
    EXPECT_EQ(run_tool({"check", "--replay", "/dev/null", "/bin/true"}).exit_code, 2);
}

#ifdef SLUICE_CHECK_STAND_IN
// The tool with a driver that has a device which runs nothing.
command_line with_driver(std::vector<std::string> arguments, const std::string& variable = "STAND_IN=1") {
    arguments.insert(arguments.begin(), "check");
    std::vector<std::string> words = tool_command(arguments).words;
    const std::string libraries = SLUICE_CHECK_STAND_INS;
    words.insert(words.begin(), {"env", "LD_LIBRARY_PATH=" + libraries, variable});
    return {words};
}
outcome run_with_driver(const std::vector<std::string>& arguments, const std::string& variable = "STAND_IN=1") {
    return tool_process(with_driver(arguments, variable)).wait();
}
const std::string program = SLUICE_CHECK_STAND_IN;

TEST(tool_check, runs_a_program_and_finds_its_race) {
    const outcome came = run_with_driver({"--may", program, "racy", "0", "--may", "--json"});
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_EQ(came.out.find("racy\n0\n--may\n--json\n"), 0u) << came;
    EXPECT_THAT(came.out, HasSubstr("race: fill of 4096 bytes on stream 1 writes what kernel scale(float*) on stream"));
    EXPECT_THAT(came.out, HasSubstr("1 finding in "));
    EXPECT_EQ(came.err, "sluice: 1 finding\n");
    const outcome ordered = run_with_driver({program, "ordered"});
    EXPECT_EQ(ordered.exit_code, 0) << ordered;
    EXPECT_THAT(ordered.out, HasSubstr("0 findings in "));
}

TEST(tool_check, has_the_status_of_a_program_in_which_nothing_is_found) {
    const outcome came = run_with_driver({program, "ordered", "5"});
    EXPECT_EQ(came.exit_code, 5) << came;
    EXPECT_THAT(came.out, HasSubstr("0 findings in "));
    EXPECT_THAT(came.err, HasSubstr("the program ended with status 5"));
    const outcome racy = run_with_driver({"--json", program, "racy", "5"});
    EXPECT_EQ(racy.exit_code, 3) << racy;
    EXPECT_THAT(racy.err, HasSubstr("1 finding; the program ended with status 5"));
    EXPECT_THAT(racy.err, HasSubstr("\"status\":3"));
}

TEST(tool_check, passes_signals_on_and_reports_what_was_recorded) {
    const temporary_directory target;
    tool_process run(with_driver({"--report", target / "report.txt", "/bin/sh", "-c",
                                  "\"$0\" waits > " + (target / "printed").string() +
                                      " & child=$!; "
                                      "trap 'kill $child; wait $child; exit 7' TERM; wait $child",
                                  program}));
    while (!std::filesystem::exists(target / "printed") ||
           io::testing::read_file(target / "printed").find("ready") == std::string::npos) {
        ASSERT_FALSE(run.has_ended());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    run.send(SIGTERM);
    const outcome came = run.wait();
    EXPECT_EQ(came.exit_code, 3) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(io::testing::read_file(target / "printed"), HasSubstr("ended by SIGTERM"));
    EXPECT_THAT(io::testing::read_file(target / "report.txt"), HasSubstr("race: fill of 4096 bytes"));
    EXPECT_THAT(came.err, HasSubstr("the program ended with status 7"));
}

TEST(tool_check, keeps_traces_where_it_is_told_to) {
    const temporary_directory target;
    const outcome came = run_with_driver({"--keep", target / "traces", program, "racy"});
    EXPECT_EQ(came.exit_code, 3) << came;
    int traces = 0;
    for (const auto& each : std::filesystem::directory_iterator(target / "traces")) {
        EXPECT_EQ(run_tool({"check", "--replay", each.path()}).exit_code, 3);
        ++traces;
    }
    EXPECT_EQ(traces, 1);
    const outcome again = run_with_driver({"--keep", target / "traces", program, "racy"});
    EXPECT_EQ(again.exit_code, 2) << again;
    EXPECT_THAT(again.err, HasSubstr("is no empty folder"));
}

TEST(tool_check, refuses_with_the_reason_where_nothing_can_be_recorded) {
    const auto expect_refused = [](const outcome& came, int status, const std::string& why) {
        EXPECT_EQ(came.exit_code, status) << came;
        EXPECT_THAT(came.err, HasSubstr(why));
    };
    expect_refused(run_with_driver({program, "racy"}, "STAND_IN_PROFILER=1"), 2,
                   "a profiler or debugger may be present");
    expect_refused(run_with_driver({program, "racy"}, "CUDA_INJECTION64_PATH=/x.so"), 2,
                   "names another library already");
    expect_refused(run_with_driver({program, "racy"}, "STAND_IN_DEVICES=0"), 2, "there is no GPU");
    expect_refused(run_with_driver({program, "silent"}), 2, "the program has recorded nothing");
    expect_refused(run_with_driver({program, "silent", "9"}), 9, "the program ended with status 9");
    expect_refused(run_with_driver({"/absent/program"}), 2, "cannot start '/absent/program'");
}
#else
TEST(tool_check, refuses_a_program_without_a_recorder) {
    const outcome came = run_tool({"check", "/bin/true"});
    EXPECT_EQ(came.exit_code, 2) << came;
    EXPECT_THAT(came.err, HasSubstr("the recorder libsluice_check_inject.so is not there"));
}
#endif

}  // namespace sluice::app::testing::check_tests
