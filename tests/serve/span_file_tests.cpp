// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/span_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::span_file_tests {
namespace {

using namespace std::chrono_literals;
using io::testing::temporary_directory;
using nlohmann::json;

traced_request example() {
    traced_request what{.trace = new_trace_id(), .span = new_span_id()};
    what.begin = infer_call::clock::now();
    what.end = what.begin + 100us;
    what.progress = {
        .queued = what.begin + 10us, .begun = what.begin + 40us, .computed = what.begin + 90us, .batch_rows = 7};
    what.path = "/v2/models/m/infer";
    what.model = "m";
    what.version = "1";
    what.status = 200;
    return what;
}

json spans_in(const std::string& line) { return json::parse(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]; }

std::uint64_t time_of(const json& span, const char* key) { return std::stoull(span[key].get<std::string>()); }

std::vector<std::string> lines_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

TEST(span_file, a_line_has_the_request_and_its_parts) {
    traced_request what = example();
    what.parent = new_span_id();
    const std::string line = otlp_line(what, "1.2.3");
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    const json resource = json::parse(line)["resourceSpans"][0]["resource"];
    EXPECT_EQ(resource["attributes"][0], json::parse(R"({"key":"service.name","value":{"stringValue":"sluice"}})"));
    const json spans = spans_in(line);
    ASSERT_EQ(spans.size(), 3U);
    EXPECT_EQ(spans[0]["name"], "request");
    EXPECT_EQ(spans[0]["kind"], 2);
    EXPECT_EQ(spans[0]["parentSpanId"], hex_text(*what.parent));
    EXPECT_EQ(spans[0]["attributes"].size(), 5U);
    EXPECT_FALSE(spans[0].contains("status"));
    EXPECT_EQ(spans[1]["name"], "queue");
    EXPECT_EQ(spans[2]["name"], "compute");
    EXPECT_EQ(spans[2]["attributes"], json::parse(R"([{"key":"sluice.batch.rows","value":{"intValue":"7"}}])"));
    for (const json& each : spans) {
        EXPECT_EQ(each["traceId"], hex_text(what.trace));
        EXPECT_EQ(each["spanId"].get<std::string>().size(), 16U);
    }
    for (std::size_t i : {1, 2}) EXPECT_EQ(spans[i]["parentSpanId"], hex_text(what.span));
    EXPECT_EQ(time_of(spans[0], "endTimeUnixNano") - time_of(spans[0], "startTimeUnixNano"), 100'000U);
    EXPECT_EQ(time_of(spans[1], "endTimeUnixNano"), time_of(spans[2], "startTimeUnixNano"));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto begin = std::chrono::nanoseconds(time_of(spans[0], "startTimeUnixNano"));
    EXPECT_LT(std::chrono::abs(now - begin), 1min);
}

TEST(span_file, parts_that_were_not_reached_have_no_span) {
    traced_request what = example();
    what.status = 504;
    what.progress.begun = what.progress.computed = {};
    const json late = spans_in(otlp_line(what, ""));
    ASSERT_EQ(late.size(), 2U);
    EXPECT_EQ(late[1]["endTimeUnixNano"], late[0]["endTimeUnixNano"]);
    EXPECT_EQ(late[0]["status"]["code"], 2);
    EXPECT_FALSE(late[0].contains("parentSpanId"));
    what.progress = {};
    EXPECT_EQ(spans_in(otlp_line(what, "")).size(), 1U);
}

TEST(span_file, appears_at_the_end_and_in_parts_when_it_is_long) {
    const temporary_directory folder;
    const std::filesystem::path file = folder / "spans.jsonl";
    {
        span_file spans(file, "1", {});
        spans.add(example());
        EXPECT_FALSE(std::filesystem::exists(file));
        spans.add(example());
        EXPECT_EQ(spans.written(), 2U);
    }
    EXPECT_EQ(lines_of(file).size(), 2U);
    std::size_t lines = 0;
    {
        span_file spans(file, "1", {}, 1);  // each write fills a part
        for (int i = 0; i < 3; ++i) {
            spans.add(example());
            const std::string part = i == 0 ? "spans.jsonl" : "spans.jsonl." + std::to_string(i);
            while (i != 0 && !std::filesystem::exists(folder / part)) std::this_thread::sleep_for(1ms);
            if (i == 0)
                while (lines_of(file).size() != 1) std::this_thread::sleep_for(1ms);
        }
    }
    for (const char* const part : {"spans.jsonl", "spans.jsonl.1", "spans.jsonl.2"})
        lines += lines_of(folder / part).size();
    EXPECT_EQ(lines, 3U);
    EXPECT_FALSE(std::filesystem::exists(folder / "spans.jsonl.3"));
}

TEST(span_file, that_cannot_be_created_is_refused) {
    const temporary_directory folder;
    EXPECT_THROW(span_file(folder / "nowhere/spans", "1", {}), file_error);
    EXPECT_THROW(span_file(folder / "", "1", {}), file_error);
}

TEST(span_file, a_disk_that_fails_is_logged_once_and_requests_go_on) {
    const temporary_directory folder;
    std::filesystem::create_directories(folder / "gone");
    std::atomic<int> said{0};
    {
        span_file spans(
            folder / "gone/spans", "1",
            [&](const log_line& line) {
                EXPECT_EQ(line.event, "spans_lost");
                ++said;
            },
            1);
        std::filesystem::remove_all(folder / "gone");
        spans.add(example());
        while (said == 0) std::this_thread::sleep_for(1ms);
        spans.add(example());
        EXPECT_EQ(spans.dropped(), 1U);
    }
    EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace sluice::serve::span_file_tests
