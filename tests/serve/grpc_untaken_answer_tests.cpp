// SPDX-License-Identifier: Apache-2.0
// Clients that do not read their answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::grpc_untaken_answer_tests {
namespace {

using namespace std::chrono_literals;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::raw_call;

// Its answer is longer than what gRPC takes for a client that reads nothing.
inference::ModelInferRequest long_request() {
    constexpr int rows = 500'000;
    inference::ModelInferRequest made = testing::row(1, true);
    made.mutable_inputs(0)->set_shape(0, rows);
    made.set_raw_input_contents(0, std::string(rows * 2 * sizeof(float), '\0'));
    return made;
}

void expect_untaken(const grpc_server& server, int count) {
    EXPECT_THAT(server.front->metrics(),
                HasSubstr("\nsluice_grpc_untaken_answers_total " + std::to_string(count) + "\n"));
}

TEST(grpc_untaken_answer, ends_its_stream_and_gives_its_memory_back) {
    const auto budget = std::make_shared<request_budget>(100 << 20);
    grpc_server server({.write_time = 2s, .budget = budget});  // both are computed in it, also on a busy machine
    raw_call stream(server, "ModelStreamInfer");
    const inference::ModelInferRequest request = long_request();
    ASSERT_TRUE(stream.send(request));
    ASSERT_TRUE(stream.send(request));
    while (server.models->find("m")->statistics().success.count != 2) std::this_thread::sleep_for(1ms);
    EXPECT_GE(budget->bytes(), 2 * request.raw_input_contents(0).size());
    expect_untaken(server, 0);
    testing::expect_given_back(*budget);
    expect_untaken(server, 1);
    EXPECT_EQ(stream.finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(server.infer(testing::row(1)).ok());
    EXPECT_EQ(server.front->drain(20s), 0U);
}

TEST(grpc_untaken_answer, ends_a_single_call) {
    const auto budget = std::make_shared<request_budget>(100 << 20);
    grpc_server server({.write_time = 2s, .budget = budget});
    raw_call call(server, "ModelInfer");
    ASSERT_TRUE(call.send(long_request()));
    call.end();
    while (server.models->find("m")->statistics().success.count != 1) std::this_thread::sleep_for(1ms);
    EXPECT_GT(budget->bytes(), 0U);
    testing::expect_given_back(*budget);
    expect_untaken(server, 1);
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(server.front->drain(20s), 0U);
}

// Also where the call is not one of inference: the text of the version is long here.
TEST(grpc_untaken_answer, ends_a_call_of_another_kind) {
    grpc_server server({.write_time = 300ms, .version = std::string(8 << 20, '1')});
    raw_call call(server, "ServerMetadata");
    ASSERT_TRUE(call.send(inference::ServerMetadataRequest()));
    call.end();
    const auto limit = std::chrono::steady_clock::now() + 10s;
    const std::string one = "\nsluice_grpc_untaken_answers_total 1\n";
    while (server.front->metrics().find(one) == std::string::npos && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(1ms);
    expect_untaken(server, 1);
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The time is that of each answer, and not of the stream.
TEST(grpc_untaken_answer, is_none_of_a_client_that_reads_in_time) {
    const grpc_server server({.write_time = 2s});
    grpc::ClientContext context;
    const auto stream = server.stub->ModelStreamInfer(&context);
    constexpr int count = 6;
    for (int i = 0; i < count; ++i) ASSERT_TRUE(stream->Write(long_request()));
    stream->WritesDone();
    inference::ModelStreamInferResponse got;
    for (int i = 0; i < count; ++i) {
        std::this_thread::sleep_for(500ms);
        ASSERT_TRUE(stream->Read(&got)) << i;
        EXPECT_EQ(got.error_message(), "");
    }
    EXPECT_FALSE(stream->Read(&got));
    EXPECT_TRUE(stream->Finish().ok());
    expect_untaken(server, 0);
}

TEST(grpc_untaken_answer, a_front_end_may_end_before_its_time) {
    grpc_server server({.write_time = 1h});
    raw_call stream(server, "ModelStreamInfer");
    ASSERT_TRUE(stream.send(long_request()));
    while (server.models->find("m")->statistics().success.count != 1) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(server.front->drain(100ms), 1U);
}

TEST(grpc_untaken_answer, a_time_out_of_range_is_refused) {
    for (const std::chrono::milliseconds time :
         {std::chrono::milliseconds(0), std::chrono::milliseconds(-1), std::chrono::milliseconds(24h + 1ms)}) {
        try {
            const grpc_server server({.write_time = time});
            FAIL() << "it listens";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::invalid_argument);
            EXPECT_THAT(failure.what(), HasSubstr("accepted is 1 ms to 24 hours"));
        }
    }
}

}  // namespace
}  // namespace sluice::serve::grpc_untaken_answer_tests
