// SPDX-License-Identifier: Apache-2.0
// `sluice check`: what it prints, writes and refuses.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace sluice::app::testing::check_tests
