// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/trace_context.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice::serve::trace_context_tests {
namespace {

const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string parent = "00f067aa0ba902b7";

TEST(trace_context, reads_the_four_parts) {
    const auto got = parse_traceparent("00-" + trace + "-" + parent + "-01");
    ASSERT_TRUE(got);
    EXPECT_EQ(hex_text(got->trace), trace);
    EXPECT_EQ(hex_text(got->parent), parent);
    EXPECT_TRUE(got->is_sampled);
    EXPECT_FALSE(parse_traceparent("00-" + trace + "-" + parent + "-00")->is_sampled);
    EXPECT_FALSE(parse_traceparent("00-" + trace + "-" + parent + "-fe")->is_sampled);
    EXPECT_TRUE(parse_traceparent("00-" + trace + "-" + parent + "-ff")->is_sampled);
}

TEST(trace_context, later_versions_may_be_longer) {
    EXPECT_TRUE(parse_traceparent("01-" + trace + "-" + parent + "-01"));
    EXPECT_TRUE(parse_traceparent("cc-" + trace + "-" + parent + "-01-what-comes"));
    EXPECT_FALSE(parse_traceparent("cc-" + trace + "-" + parent + "-01.what"));
    EXPECT_FALSE(parse_traceparent("cc-" + trace + "-" + parent + "-011"));
}

TEST(trace_context, what_the_standard_does_not_allow_is_no_context) {
    for (const std::string& wrong : {std::string(),
                                     std::string("00"),
                                     "00-" + trace + "-" + parent,
                                     "00-" + trace + "-" + parent + "-",
                                     "00-" + trace + "-" + parent + "-1",
                                     "00-" + trace + "-" + parent + "-01-",
                                     "00-" + trace + "-" + parent + "-011",
                                     "ff-" + trace + "-" + parent + "-01",
                                     "0-" + trace + "-" + parent + "-01",
                                     "00-" + parent + "-" + trace + "-01",
                                     "00-" + std::string(32, '0') + "-" + parent + "-01",
                                     "00-" + trace + "-" + std::string(16, '0') + "-01",
                                     "00_" + trace + "-" + parent + "-01",
                                     "00-" + trace + "_" + parent + "-01",
                                     "00-" + trace + "-" + parent + "_01",
                                     "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + parent + "-01",
                                     "00-" + trace + "-" + parent + "-0g",
                                     "0g-" + trace + "-" + parent + "-01",
                                     " 00-" + trace + "-" + parent + "-01",
                                     "00-" + trace.substr(1) + "g-" + parent + "-01"}) {
        EXPECT_FALSE(parse_traceparent(wrong)) << wrong;
    }
}

TEST(trace_context, new_identifiers_differ) {
    std::set<std::string> all;
    for (int i = 0; i < 1000; ++i) {
        all.insert(hex_text(new_trace_id()));
        all.insert(hex_text(new_span_id()));
    }
    EXPECT_EQ(all.size(), 2000U);
}

}  // namespace
}  // namespace sluice::serve::trace_context_tests
