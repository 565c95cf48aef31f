// SPDX-License-Identifier: Apache-2.0
// The pictures of findings: which commands they have, and what follows what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/support/simulated_driver.hpp"

namespace sluice::check::order_log_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::reads;
using testing::simulated_driver;
using testing::writes;

// "use: 0 1": the command and what it follows.
std::vector<std::string> words_for(const finding& of) {
    std::vector<std::string> all;
    for (const ordered_call& each : of.picture) {
        std::string words = each.what.what + ":";
        for (const std::size_t before : each.after) words += " " + std::to_string(before);
        all.push_back(words);
    }
    return all;
}

}  // namespace

TEST(pictures, have_both_calls_and_what_they_directly_follow) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking(), c = cuda.non_blocking();
    const auto x = cuda.malloc(), y = cuda.malloc(), z = cuda.malloc();
    cuda.launch("first", a, {writes(x)});
    cuda.order(a, b);
    cuda.order(a, c);
    cuda.launch("left", b, {reads(x), writes(y)});
    cuda.launch("right", c, {reads(x), writes(z)});
    cuda.launch("elsewhere", cuda.non_blocking(), {writes(cuda.malloc())});
    cuda.order(b, a);
    cuda.launch("last", a, {reads(y), reads(z)});  // does not follow the right one
    const check_report report = cuda.check({.pictures = 4});
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_THAT(words_for(report.findings[0]),
                ElementsAre("kernel first:", "kernel left: 0", "kernel right: 0", "kernel last: 1"));
}

TEST(pictures, show_what_the_host_has_waited_for) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    cuda.launch("first", a, {writes(x)});
    cuda.synchronize(a);
    cuda.launch("second", a, {writes(x)});
    cuda.launch("third", b, {reads(x)});
    const check_report report = cuda.check({.pictures = 4});
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_THAT(words_for(report.findings[0]), ElementsAre("kernel first:", "kernel second: 0", "kernel third: 0"));
}

TEST(pictures, of_graphs_have_their_nodes) {
    simulated_driver cuda;
    const auto x = cuda.malloc();
    const auto graph = cuda.create_graph();
    const auto third = cuda.kernel_node(graph, "third", {reads(x)});
    const auto first = cuda.kernel_node(graph, "first", {});
    cuda.kernel_node(graph, "second", {writes(x)}, {first});
    cuda.add_edge(graph, first, third);
    cuda.instantiate(graph);
    const check_report report = cuda.check({.pictures = 4});
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_THAT(
        words_for(report.findings[0]),
        ::testing::UnorderedElementsAre("node: kernel first:", "node: kernel second: 0", "node: kernel third: 0"));
}

TEST(pictures, are_of_the_first_findings_only) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    for (int i = 0; i < 3; ++i) {
        const auto x = cuda.malloc();
        cuda.launch("make", a, {writes(x)});
        cuda.launch("use", b, {reads(x)});
    }
    const check_report report = cuda.check({.pictures = 1});
    ASSERT_EQ(report.findings.size(), 3u);
    EXPECT_EQ(report.findings[0].picture.size(), 2u);
    EXPECT_THAT(report.findings[1].picture, IsEmpty());
    EXPECT_THAT(cuda.check().findings[0].picture, IsEmpty());
}

TEST(pictures, of_long_programs_have_the_latest_commands) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    for (int i = 0; i < 1000; ++i) cuda.launch("step", a, {writes(x)});
    cuda.launch("use", b, {reads(x)});
    const check_report report = cuda.check({.pictures = 1});
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].picture.size(), 24u);
    EXPECT_EQ(report.findings[0].picture.back().what.what, "kernel use");
    for (const std::string& each : report.unseen) EXPECT_EQ(each.find("pictures"), std::string::npos) << each;
}

TEST(pictures, of_what_comes_too_late_are_said_to_be_missing) {
    simulated_driver cuda;
    const auto a = cuda.non_blocking(), b = cuda.non_blocking();
    const auto x = cuda.malloc();
    for (int i = 0; i < 50'001; ++i) cuda.launch("step", a, {writes(x)});
    cuda.launch("use", b, {reads(x)});
    const check_report report = cuda.check({.pictures = 1});
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_TRUE(report.findings[0].picture.empty());
    EXPECT_TRUE(
        std::ranges::any_of(report.unseen, [](const std::string& each) { return each.starts_with("pictures"); }));
}

}  // namespace sluice::check::order_log_tests
