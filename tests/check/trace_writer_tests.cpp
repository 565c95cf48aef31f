// SPDX-License-Identifier: Apache-2.0
#include "check/inject/trace_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "io/support/temporary_directory.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check::trace_writer_tests {
namespace {

void write_header(trace_writer& to) {
    to.begin_header();
    to.number("sluice_check_trace", 1);
    to.text("program", "p \"q\"\n\\\xff");
    to.end();
}

}  // namespace

TEST(trace_writer, writes_what_the_reader_reads) {
    const io::testing::temporary_directory folder;
    trace_writer to;
    ASSERT_TRUE(to.open(folder / "1.trace"));
    write_header(to);
    to.begin("stream");
    to.number("stream", 7);
    to.text("kind", "non_blocking");
    to.end();
    for (int i = 0; i < 2; ++i) {
        const std::uint64_t stack = to.stack();
        EXPECT_EQ(stack, 1u);  // both from this line
        to.begin("kernel");
        to.number("stack", stack);
        to.number("stream", 7);
        to.text("name", "k");
        to.begin_list("args");
        for (std::uint64_t at = 1; at < 3; ++at) {
            to.begin_object();
            to.number("at", at);
            to.end_object();
        }
        to.end_list();
        to.end();
    }
    to.flush();
    std::ifstream from(folder / "1.trace");
    const check_report report = check_trace(from, "1.trace");
    EXPECT_EQ(report.program, "p \"q\"?\\?");
    EXPECT_TRUE(report.findings.empty());
}

TEST(trace_writer, names_the_functions_of_a_stack) {
    const io::testing::temporary_directory folder;
    trace_writer to;
    ASSERT_TRUE(to.open(folder / "1.trace"));
    EXPECT_EQ(to.stack(), 1u);
    to.flush();
    const std::string text = io::testing::read_file(folder / "1.trace");
    const auto line = nlohmann::json::parse(text.substr(0, text.find('\n')));
    EXPECT_EQ(line["op"], "frames");
    ASSERT_FALSE(line["frames"].empty());
    EXPECT_THAT(line["frames"][0].get<std::string>(), ::testing::HasSubstr("check_tests+0x"));
}

}  // namespace sluice::check::trace_writer_tests
