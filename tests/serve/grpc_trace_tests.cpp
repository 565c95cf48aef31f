// SPDX-License-Identifier: Apache-2.0
// The log of requests and traces over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/support/grpc_server.hpp"

namespace sluice::serve::grpc_trace_tests {
namespace {

using nlohmann::json;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string parent = "00f067aa0ba902b7";

struct kept_lines {
    log_sink sink() {
        return [this](const log_line& line) {
            const std::lock_guard lock(mutex);
            if (line.event == "request") lines.push_back(line);
        };
    }
    std::mutex mutex;
    std::vector<log_line> lines;
};

grpc::Status infer(const grpc_server& server, const inference::ModelInferRequest& request, const std::string& flags) {
    grpc::ClientContext context;
    if (!flags.empty()) context.AddMetadata("traceparent", "00-" + trace + "-" + parent + "-" + flags);
    inference::ModelInferResponse ignored;
    return server.stub->ModelInfer(&context, request, &ignored);
}

TEST(grpc_trace, the_timeline_has_requests_of_calls_and_of_streams) {
    const grpc_server server;
    ASSERT_TRUE(infer(server, row(1), "").ok());
    inference::ModelInferRequest wrong = row(1);
    wrong.set_model_name("other");
    ASSERT_EQ(infer(server, wrong, "").error_code(), grpc::StatusCode::NOT_FOUND);
    {
        grpc::ClientContext context;
        const auto stream = server.stub->ModelStreamInfer(&context);
        ASSERT_TRUE(stream->Write(row(2)));
        inference::ModelStreamInferResponse answer;
        ASSERT_TRUE(stream->Read(&answer));
        stream->WritesDone();
        ASSERT_TRUE(stream->Finish().ok());
    }
    const std::vector<request_record> last = server.models->timeline().last();
    ASSERT_EQ(last.size(), 3U);
    EXPECT_EQ(last[0].protocol, request_protocol::grpc);
    EXPECT_EQ(last[0].status, 0);
    EXPECT_EQ(last[0].id.view(), "seven");
    EXPECT_EQ(last[0].device.view(), "none");
    EXPECT_LE(last[0].complete, last[0].progress.queued);
    EXPECT_LE(last[0].progress.computed, last[0].answered);
    EXPECT_NE(last[0].progress.batch, 0U);
    EXPECT_EQ(last[1].status, static_cast<int>(grpc::StatusCode::NOT_FOUND));
    EXPECT_EQ(last[1].model.view(), "other");
    EXPECT_EQ(last[1].device.view(), "");
    EXPECT_EQ(last[2].protocol, request_protocol::grpc_stream);
    EXPECT_GT(last[2].progress.batch, last[0].progress.batch);
}

TEST(grpc_trace, a_request_continues_the_trace_of_its_caller) {
    const io::testing::temporary_directory folder;
    const auto spans = std::make_shared<span_file>(folder / "spans.jsonl", "1", log_sink{});
    kept_lines log;
    {
        const grpc_server server({.log_requests = true, .spans = spans}, "{}", log.sink());
        ASSERT_TRUE(infer(server, row(1), "01").ok());
        inference::ModelInferRequest wrong = row(1);
        wrong.set_model_name("other");
        ASSERT_EQ(infer(server, wrong, "").error_code(), grpc::StatusCode::NOT_FOUND);
        ASSERT_TRUE(infer(server, row(1), "00").ok());  // not sampled
        EXPECT_THAT(server.front->metrics(), HasSubstr("sluice_grpc_wrong_traceparents_total 0\n"));
        ASSERT_TRUE(infer(server, row(1), "wrong").ok());
        EXPECT_THAT(server.front->metrics(), HasSubstr("sluice_grpc_wrong_traceparents_total 1\n"));
    }
    spans->end();
    std::ifstream in(folder / "spans.jsonl");
    std::vector<json> all;
    for (std::string line; std::getline(in, line);)
        all.push_back(json::parse(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]);
    ASSERT_EQ(all.size(), 3U);
    const json& request = all[0][0];
    EXPECT_EQ(request["traceId"], trace);
    EXPECT_EQ(request["parentSpanId"], parent);
    EXPECT_THAT(request["attributes"].dump(),
                HasSubstr(R"({"key":"rpc.method","value":{"stringValue":"ModelInfer"}})"));
    EXPECT_THAT(request["attributes"].dump(), HasSubstr(R"({"key":"rpc.grpc.status_code","value":{"intValue":"0"}})"));
    EXPECT_THAT(request["attributes"].dump(), HasSubstr(R"({"key":"sluice.model.name","value":{"stringValue":"m"}})"));
    EXPECT_FALSE(request.contains("status"));
    ASSERT_EQ(all[0].size(), 3U);
    EXPECT_EQ(all[0][1]["name"], "queue");
    EXPECT_EQ(all[0][2]["name"], "compute");
    EXPECT_EQ(all[1].size(), 1U);  // refused before the queue
    EXPECT_NE(all[1][0]["traceId"], trace);

    ASSERT_EQ(log.lines.size(), 4U);
    EXPECT_THAT(log.lines[0].message, HasSubstr("gRPC ModelInfer OK in "));
    EXPECT_EQ(log.lines[0].model, "m");
    EXPECT_EQ(log.lines[0].trace_id, trace);
    EXPECT_EQ(log.lines[0].span_id, request["spanId"].get<std::string>());
    EXPECT_THAT(log.lines[1].message, HasSubstr("gRPC ModelInfer NOT_FOUND in "));
    EXPECT_EQ(log.lines[2].span_id, "");
}

// To copy the version takes some time, as it is long.
TEST(grpc_trace, a_line_says_how_long_a_call_took_that_is_no_request_to_a_model) {
    kept_lines log;
    const grpc_server server({.log_requests = true, .version = std::string(16 << 20, '1')}, "{}", log.sink());
    testing::raw_call call(server, "ServerMetadata");
    ASSERT_TRUE(call.send(inference::ServerMetadataRequest()));
    call.end();
    const auto line = [&log] {
        const std::lock_guard lock(log.mutex);
        return log.lines.empty() ? std::string() : log.lines.front().message;
    };
    while (line().empty()) std::this_thread::yield();
    const std::string begin = "gRPC ServerMetadata OK in ";
    ASSERT_TRUE(line().starts_with(begin)) << line();
    EXPECT_GT(std::stoi(line().substr(begin.size())), 100) << line();
}

TEST(grpc_trace, requests_are_not_logged_unless_it_is_asked_for) {
    kept_lines log;
    const grpc_server server({}, "{}", log.sink());
    ASSERT_TRUE(server.infer(row(1)).ok());
    EXPECT_TRUE(log.lines.empty());
}

}  // namespace
}  // namespace sluice::serve::grpc_trace_tests
