// SPDX-License-Identifier: Apache-2.0
// Who may do what over gRPC, and how much of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/support/known_clients.hpp"

namespace sluice::serve::grpc_access_tests {
namespace {

using ::testing::ElementsAre;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::list_of;
using testing::raw_call;
using testing::row;

std::unique_ptr<grpc::ClientContext> with_token(const std::string& token) {
    auto made = std::make_unique<grpc::ClientContext>();
    made->AddMetadata("authorization", "Bearer " + token);
    return made;
}

TEST(grpc_access, a_token_is_for_its_roles) {
    const auto clients = list_of({{.name = "asks", .tokens = {"asks"}, .roles = {true, false, false}},
                                  {.name = "looks", .tokens = {"looks"}, .roles = {false, true, false}},
                                  {.name = "loads", .tokens = {"loads"}, .roles = {false, false, true}}});
    const grpc_server server({.clients = clients});
    const auto codes = [](const auto& ask) {
        std::vector<grpc::StatusCode> got;
        for (const char* const each : {"asks", "looks", "loads"}) got.push_back(ask(*with_token(each)).error_code());
        return got;
    };
    using enum grpc::StatusCode;
    const auto stub = server.stub.get();
    EXPECT_THAT(codes([&](grpc::ClientContext& context) {
                    inference::ModelInferResponse got;
                    return stub->ModelInfer(&context, row(1), &got);
                }),
                ElementsAre(OK, PERMISSION_DENIED, PERMISSION_DENIED));
    EXPECT_THAT(codes([&](grpc::ClientContext& context) {
                    inference::ModelStatisticsResponse got;
                    return stub->ModelStatistics(&context, {}, &got);
                }),
                ElementsAre(PERMISSION_DENIED, OK, PERMISSION_DENIED));
    EXPECT_THAT(codes([&](grpc::ClientContext& context) {
                    inference::RepositoryModelLoadRequest request;
                    request.set_model_name("m");
                    inference::RepositoryModelLoadResponse got;
                    return stub->RepositoryModelLoad(&context, request, &got);
                }),
                ElementsAre(PERMISSION_DENIED, PERMISSION_DENIED, OK));
    EXPECT_THAT(codes([&](grpc::ClientContext& context) {
                    inference::ServerMetadataResponse got;
                    return stub->ServerMetadata(&context, {}, &got);
                }),
                ElementsAre(OK, OK, OK));
    for (const std::string token : {"looks", "loads"}) {
        raw_call stream(server, "ModelStreamInfer", "Bearer " + token);
        stream.end();
        const grpc::Status refused = stream.finish();
        EXPECT_EQ(refused.error_code(), PERMISSION_DENIED);
        EXPECT_THAT(refused.error_message(), HasSubstr("this token is not for the role infer; its roles are "));
    }
}

TEST(grpc_access, requests_beyond_the_rate_are_refused) {
    const grpc_server server({.clients = list_of({{.name = "slow", .tokens = {"slow"}, .requests_per_second = 2}})});
    int accepted = 0;
    grpc::Status refused;
    for (int i = 0; i < 20; ++i) {
        inference::ModelInferResponse got;
        const grpc::Status status = server.stub->ModelInfer(with_token("slow").get(), row(1), &got);
        accepted += status.ok() ? 1 : 0;
        if (!status.ok()) refused = status;
    }
    EXPECT_GE(accepted, 2);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(refused.error_message(), HasSubstr("the client 'slow' sends more than 2 requests a second"));
}

// Each message of a stream is a request. The stream continues.
TEST(grpc_access, a_stream_has_the_rate_of_its_client) {
    const grpc_server server({.clients = list_of({{.name = "slow", .tokens = {"slow"}, .requests_per_second = 1}})});
    const auto context = with_token("slow");
    const auto stream = server.stub->ModelStreamInfer(context.get());
    int accepted = 0, refused = 0;
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(stream->Write(row(1)));
        inference::ModelStreamInferResponse got;
        ASSERT_TRUE(stream->Read(&got));
        if (got.error_message().empty())
            ++accepted;
        else if (got.error_message().find("more than 1 requests a second") != std::string::npos)
            ++refused;
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_GE(accepted, 1);
    EXPECT_EQ(accepted + refused, 30);
    EXPECT_GT(refused, 0);
}

TEST(grpc_access, a_client_s_requests_have_no_more_than_its_memory) {
    const auto clients = list_of({{.name = "small", .tokens = {"small"}, .memory_bytes = 100'000}});
    const grpc_server server({.clients = clients});
    inference::ModelInferRequest request = row(1, true);
    request.set_raw_input_contents(0, std::string(150'000, 'x'));
    inference::ModelInferResponse got;
    const grpc::Status refused = server.stub->ModelInfer(with_token("small").get(), request, &got);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
    EXPECT_THAT(refused.error_message(), HasSubstr("all requests of this client may have 100000 at a time"));
    EXPECT_TRUE(server.stub->ModelInfer(with_token("small").get(), row(1), &got).ok());
    server.front->drain(std::chrono::seconds(10));
    testing::expect_given_back(*clients->find("Bearer small")->budget());
    testing::expect_given_back(*clients->whole());
}

TEST(grpc_access, loads_are_in_the_log_with_who_asked) {
    std::mutex mutex;
    std::vector<std::string> lines;
    const log_sink log = [&](const log_line& line) {
        const std::lock_guard lock(mutex);
        if (line.event == "load_asked") lines.push_back(line.message);
    };
    const grpc_server server({.clients = list_of({{.name = "ops", .tokens = {"ops"}}})}, "{}", log);
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("m");
    inference::RepositoryModelLoadResponse got;
    EXPECT_TRUE(server.stub->RepositoryModelLoad(with_token("ops").get(), request, &got).ok());
    const std::lock_guard lock(mutex);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0], "load of 'm', asked by the client 'ops' over gRPC: done");
}

}  // namespace
}  // namespace sluice::serve::grpc_access_tests
