// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "fuzz/read_check_trace.hpp"
#include "fuzz/replay.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check::trace_reader_tests {
namespace {

using ::testing::HasSubstr;

const std::string first = "{\"sluice_check_trace\":1}\n";

check_report check(const std::string& text) {
    std::istringstream from(text);
    return check_trace(from, "t.trace");
}

void expect_refused(const std::string& text, const std::string& why) {
    SCOPED_TRACE(text.substr(0, 200));
    try {
        check(text);
        ADD_FAILURE() << "read";
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr(why));
        EXPECT_THAT(failure.what(), HasSubstr("t.trace"));
    }
}

}  // namespace

// Small traces that would make much of a few bytes.
TEST(trace_reader, has_bounds_for_what_traces_make) {
    std::string graph = first +
                        "{\"op\":\"stream\",\"stream\":1}\n{\"op\":\"alloc\",\"at\":65536,\"bytes\":65536}\n{\"op\":"
                        "\"graph\",\"graph\":1}\n";
    std::string args;
    for (int i = 0; i < 4000; ++i)
        args += (i == 0 ? "" : ",") + std::string("{\"at\":") + std::to_string(65'536 + 16 * i) +
                ",\"bytes\":8,\"mode\":\"read\"}";
    graph += "{\"op\":\"node\",\"graph\":1,\"node\":1,\"kind\":\"kernel\",\"name\":\"k\",\"args\":[" + args + "]}\n";
    std::string same = graph, others = graph;
    for (int i = 0; i < 600; ++i) {
        same += "{\"op\":\"instantiate\",\"graph\":1,\"exec\":1}\n";
        others += "{\"op\":\"instantiate\",\"graph\":1,\"exec\":" + std::to_string(i) + "}\n";
    }
    static_cast<void>(check(same));
    expect_refused(others, "2,097,152");
}

TEST(trace_reader, names_the_line_that_it_refuses) {
    expect_refused("", "line 1");
    expect_refused("{}\n", "begins with");
    expect_refused("{\"sluice_check_trace\":2}\n", "version 2");
    expect_refused("{\"sluice_check_trace\":1,\"refused\":\"a profiler\"}\n", "nothing was recorded: a profiler");
    expect_refused(first + "{\"op\":\"stream\",\"stream\":1}\n{\"op\":\"kernel\",\"stream\":1}\n", "neither");
    expect_refused(first + "{\"op\":\"stream\",\"stream\":1}\n{\"op\":\"kernel\",\"stream\":1,\"function\":4}\n",
                   "function 4 is not declared");
    expect_refused(first + "{\"op\":\"wait\"\n", "line 2: is no JSON object");
    expect_refused(first + "{\"op\":\"dance\"}\n", "'dance', which is no call");
    expect_refused(first + "{\"op\":\"wait\",\"stream\":1}\n", "has no \"event\"");
    expect_refused(first + "{\"op\":\"wait\",\"stream\":1,\"event\":-1}\n", "\"event\" is no whole number");
    expect_refused(first + "{\"op\":\"stream\",\"stream\":1,\"kind\":\"odd\"}\n",
                   "none of blocking, non_blocking, legacy");
    expect_refused(first + "\n{\"op\":\"stream_sync\",\"stream\":9}\n", "line 3: stream 9 is not declared");
    expect_refused(first + "{\"op\":\"alloc\",\"at\":18446744073709551615,\"bytes\":2}\n", "end of the address space");
    expect_refused(first + "{\"op\":\"capture_end\",\"stream\":1,\"graph\":1}\n", "stream 1 is not declared");
    expect_refused(first + "{\"op\":\"instantiate\",\"graph\":1,\"exec\":1}\n", "graph 1 is not declared");
    expect_refused(first + std::string((std::size_t{1} << 20) + 1, ' ') + "\n", "longer than 1 MiB");
}

TEST(trace_reader, refuses_a_graph_with_a_cycle) {
    const std::string graph = R"({"op":"graph","graph":1}
{"op":"node","graph":1,"node":1,"kind":"empty"}
{"op":"node","graph":1,"node":2,"kind":"empty","after":[1]}
{"op":"edge","graph":1,"from":2,"to":1}
{"op":"instantiate","graph":1,"exec":1}
)";
    expect_refused(first + graph, "line 6: a graph has a cycle");
}

TEST(trace_reader, refuses_more_streams_than_it_keeps) {
    std::string text = first;
    for (int i = 0; i < 1100; ++i) text += "{\"op\":\"stream\",\"stream\":" + std::to_string(i) + "}\n";
    expect_refused(text, "more than 1024 streams");
}

TEST(trace_reader, leaves_out_a_line_that_is_cut_and_says_so) {
    const check_report report = check(first + "{\"op\":\"stream\",\"stream\":1}\n{\"op\":\"stre");
    EXPECT_EQ(report.calls, 1u);
    ASSERT_EQ(report.unseen.size(), 1u);
    EXPECT_THAT(report.unseen.front(), HasSubstr("line 3"));
}

TEST(trace_reader, forgets_work_that_nothing_waits_for_and_says_so) {
    std::string text = first +
                       "{\"op\":\"stream\",\"stream\":1,\"kind\":\"non_blocking\"}\n"
                       "{\"op\":\"alloc\",\"at\":65536,\"bytes\":65536}\n";
    for (int i = 0; i < 5000; ++i)
        text += "{\"op\":\"fill\",\"stream\":1,\"to\":" + std::to_string(65536 + i) + ",\"bytes\":1}\n";
    const check_report report = check(text);
    EXPECT_TRUE(report.findings.empty());
    ASSERT_EQ(report.unseen.size(), 1u);
    EXPECT_THAT(report.unseen.front(), HasSubstr("forgotten"));
}

TEST(trace_reader, takes_the_fuzzers_seeds) {
    sluice::fuzz::replay("fuzz/corpus/check_trace", check::fuzz::read_check_trace);
}

}  // namespace sluice::check::trace_reader_tests
