// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "serve/support/http_server.hpp"

namespace sluice::serve::http_trace_tests {
namespace {

using nlohmann::json;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_server;
using testing::post_request;
using testing::raw_client;

const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string parent = "00f067aa0ba902b7";

std::string infer_with(const std::string& fields, const std::string& data = "1,1") {
    return post_request("/v2/models/m/infer",
                        R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[)" + data + "]}]}", fields);
}
std::string traceparent(const std::string& flags) {
    return "traceparent: 00-" + trace + "-" + parent + "-" + flags + "\r\n";
}

struct tracing_server : http_server {
    explicit tracing_server(http_options options = {}) {
        options.port = 0;
        options.otlp = folder / "spans.jsonl";
        options.log_requests = true;
        traced = std::make_unique<http_front>(*models, options, [this](const log_line& line) {
            const std::lock_guard lock(mutex);
            if (line.event == "request") lines.push_back(line);
        });
    }
    ~tracing_server() { traced.reset(); }

    // Ends the front end.
    std::vector<json> spans() {
        traced->drain(std::chrono::seconds(20));
        std::ifstream in(folder / "spans.jsonl");
        std::vector<json> all;
        for (std::string line; std::getline(in, line);)
            all.push_back(json::parse(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        return all;
    }

    std::mutex mutex;
    std::vector<log_line> lines;
    std::unique_ptr<http_front> traced;
};

TEST(http_trace, a_request_continues_the_trace_of_its_caller) {
    tracing_server server;
    {
        raw_client client(server.traced->port());
        EXPECT_EQ(client.ask(infer_with(traceparent("01"))).status, 200);
        EXPECT_EQ(client.ask(infer_with(traceparent("00"))).status, 200);
        EXPECT_EQ(client.ask(infer_with("")).status, 200);
        EXPECT_EQ(client.ask(infer_with(traceparent("01"), "1")).status, 400);
        EXPECT_THAT(client.ask(get_request("/metrics")).body, HasSubstr("sluice_traced_requests_total 3\n"));
    }
    const std::vector<json> spans = server.spans();
    ASSERT_EQ(spans.size(), 3U);
    ASSERT_EQ(spans[0].size(), 3U);
    EXPECT_EQ(spans[0][0]["traceId"], trace);
    EXPECT_EQ(spans[0][0]["parentSpanId"], parent);
    EXPECT_EQ(spans[0][1]["name"], "queue");
    EXPECT_EQ(spans[0][2]["name"], "compute");
    EXPECT_NE(spans[1][0]["traceId"], trace);  // the caller of the second one does not sample
    EXPECT_FALSE(spans[1][0].contains("parentSpanId"));
    EXPECT_EQ(spans[2].size(), 1U);  // refused before the queue
    ASSERT_EQ(server.lines.size(), 5U);
    EXPECT_EQ(server.lines[0].trace_id, trace);
    EXPECT_EQ(spans[0][0]["spanId"], server.lines[0].span_id);
    EXPECT_THAT(server.lines[0].message, HasSubstr("POST /v2/models/m/infer 200 in "));
    EXPECT_EQ(server.lines[0].model, "m");
    EXPECT_EQ(server.lines[1].trace_id, trace);
    EXPECT_EQ(server.lines[1].span_id, "");
    EXPECT_EQ(spans[1][0]["traceId"], server.lines[2].trace_id);
    EXPECT_THAT(server.lines[4].message, HasSubstr("GET /metrics 200"));
    EXPECT_EQ(server.lines[4].trace_id, "");
}

TEST(http_trace, a_wrong_traceparent_is_ignored_and_counted) {
    tracing_server server;
    {
        raw_client client(server.traced->port());
        EXPECT_EQ(client.ask(infer_with("traceparent: 00-" + trace + "-" + parent + "-1\r\n")).status, 200);
        EXPECT_EQ(client.ask(infer_with("Traceparent: \r\n")).status, 200);
        EXPECT_EQ(client.ask(infer_with(traceparent("01") + traceparent("01"))).status, 200);  // two are none
        EXPECT_EQ(client.ask(infer_with(traceparent("01"))).status, 200);
        EXPECT_THAT(client.ask(get_request("/metrics")).body, HasSubstr("sluice_http_wrong_traceparents_total 3\n"));
    }
    const std::vector<json> spans = server.spans();
    ASSERT_EQ(spans.size(), 4U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(spans[i][0]["traceId"], trace);
    EXPECT_EQ(spans[3][0]["traceId"], trace);
}

}  // namespace
}  // namespace sluice::serve::http_trace_tests
