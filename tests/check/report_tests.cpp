// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "check/support/simulated_driver.hpp"
#include "sluice/base/error.hpp"

namespace sluice::check::report_tests {
namespace {

using ::testing::HasSubstr;
using testing::reads;
using testing::simulated_driver;
using testing::writes;

// A race between two kernels, whose names a terminal would act on.
simulated_driver race() {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.create_stream("non_blocking", 1);
    const auto x = cuda.malloc();
    cuda.launch("make\\u001b[31m", a, {writes(x)});
    cuda.launch("use", b, {reads(x)});
    return cuda;
}

std::string text_of(const check_report& report, void (*write)(const check_report&, std::ostream&)) {
    std::ostringstream to;
    write(report, to);
    return to.str();
}

}  // namespace

TEST(report, names_both_places_and_the_missing_wait) {
    const std::string text = text_of(race().check(), write_text);
    EXPECT_THAT(text, HasSubstr("race: kernel make\\x1b[31m on stream 1 can write what kernel use on stream 2 reads"));
    EXPECT_THAT(text, HasSubstr("byte 0 of 4096 bytes of device memory"));
    EXPECT_THAT(text, HasSubstr("kernel use, stream 2 of device 1 (non-blocking), thread 1, line 6 of the trace"));
    EXPECT_THAT(text, HasSubstr("cudaEventRecord(event, stream1);"));
    EXPECT_THAT(text, HasSubstr("cudaStreamWaitEvent(stream2, event);"));
    EXPECT_THAT(text, HasSubstr("1 finding in 5 calls of planted"));
    EXPECT_THAT(text, HasSubstr("not seen:"));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(report, has_the_same_as_json_and_as_sarif) {
    const auto json = nlohmann::json::parse(text_of(race().check(), write_json));
    ASSERT_EQ(json["findings"].size(), 1u);
    EXPECT_EQ(json["findings"][0]["kind"], "race");
    EXPECT_EQ(json["findings"][0]["first"]["line"], 5);
    const auto sarif = nlohmann::json::parse(text_of(race().check(), write_sarif));
    EXPECT_EQ(sarif["version"], "2.1.0");
    ASSERT_EQ(sarif["runs"][0]["results"].size(), 1u);
    EXPECT_EQ(sarif["runs"][0]["results"][0]["ruleId"], "race");
    EXPECT_EQ(sarif["runs"][0]["results"][0]["level"], "error");
    EXPECT_EQ(sarif["runs"][0]["tool"]["driver"]["rules"].size(), 10u);
}

TEST(suppressions, leave_out_what_matches_kind_and_pattern) {
    const auto left = [](const std::string& text) {
        const check_report report = race().check({.suppressions = parse_suppressions(text)});
        EXPECT_EQ(report.findings.size() + report.suppressed, 1u);
        return report.findings.size();
    };
    EXPECT_EQ(left("# of a library\n\n race : kernel use\n"), 0u);
    EXPECT_EQ(left("*: *make*\n"), 0u);
    EXPECT_EQ(left("race: *device 1*"), 0u);
    EXPECT_EQ(left("race: use\n"), 1u);
    EXPECT_EQ(left("early read: *\n"), 1u);
    EXPECT_THROW(parse_suppressions("races: *"), error);
    EXPECT_THROW(parse_suppressions("race"), error);
    EXPECT_THROW(parse_suppressions("race: "), error);
}

TEST(findings, of_the_same_stacks_are_one_that_counts) {
    std::string text =
        "{\"sluice_check_trace\":1}\n"
        "{\"op\":\"frames\",\"stack\":1,\"frames\":[\"f at program+0x10\"]}\n"
        "{\"op\":\"frames\",\"stack\":2,\"frames\":[\"g\"]}\n"
        "{\"op\":\"stream\",\"stream\":1,\"kind\":\"non_blocking\"}\n"
        "{\"op\":\"stream\",\"stream\":2,\"kind\":\"non_blocking\"}\n"
        "{\"op\":\"alloc\",\"at\":4096,\"bytes\":64}\n";
    for (int i = 0; i < 3; ++i) {
        text +=
            "{\"op\":\"fill\",\"stack\":1,\"stream\":1,\"to\":4096,\"bytes\":64}\n"
            "{\"op\":\"fill\",\"stack\":2,\"stream\":2,\"to\":4096,\"bytes\":64}\n"
            "{\"op\":\"device_sync\"}\n";
    }
    std::istringstream from(text);
    const check_report report = check_trace(from, "t");
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].times, 3u);
    EXPECT_THAT(report.findings[0].first.frames, ::testing::ElementsAre("f at program+0x10"));
}

}  // namespace sluice::check::report_tests
