// SPDX-License-Identifier: Apache-2.0
// Calls over gRPC that wait for their model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "serve/support/grpc_server.hpp"

namespace sluice::serve::grpc_on_demand_tests {
namespace {

using namespace std::chrono_literals;
using namespace inference;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

struct demanding_server : grpc_server {
    demanding_server() : grpc_server({}, "{}", {}, {.loads_on_demand = true}) {}

    // Holds loads until open().
    void hold() {
        on_load = [this, gate = gate_.get_future().share()] {
            ++loads;
            gate.wait();
        };
    }
    void open() { gate_.set_value(); }

    std::atomic<int> loads{0};

private:
    std::promise<void> gate_;
};

float first_of(const ModelInferResponse& got) {
    float value = -1;
    if (got.raw_output_contents_size() == 1) std::memcpy(&value, got.raw_output_contents(0).data(), sizeof(value));
    return value;
}

TEST(grpc_on_demand, the_first_call_for_a_model_loads_it) {
    {
        const demanding_server server;
        ModelInferResponse got;
        const grpc::Status status = server.infer(row(3), got);
        ASSERT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(first_of(got), 6);
        EXPECT_TRUE(server.infer(row(4), got).ok());
        ModelInferRequest other = row(1);
        other.set_model_name("other");
        EXPECT_EQ(server.infer(other).error_code(), grpc::StatusCode::NOT_FOUND);
        EXPECT_EQ(server.models->memory().on_demand, 1U);
    }
    {
        const demanding_server server;
        grpc::ClientContext context;
        ModelMetadataRequest request;
        request.set_name("m");
        ModelMetadataResponse got;
        ASSERT_TRUE(server.stub->ModelMetadata(&context, request, &got).ok());
        EXPECT_EQ(got.platform(), "fake");
    }
    {
        const demanding_server server;
        grpc::ClientContext context;
        ModelConfigRequest request;
        request.set_name("m");
        ModelConfigResponse got;
        ASSERT_TRUE(server.stub->ModelConfig(&context, request, &got).ok());
        EXPECT_EQ(got.config().name(), "m");
    }
    const demanding_server server;
    for (const std::string name : {"m", "other"}) {
        grpc::ClientContext context;
        ModelReadyRequest request;
        request.set_name(name);
        ModelReadyResponse got;
        ASSERT_TRUE(server.stub->ModelReady(&context, request, &got).ok());
        EXPECT_EQ(got.ready(), name == "m");
    }
    EXPECT_EQ(server.models->all().size(), 0U);
}

// The drain waits for it, and it is counted once.
TEST(grpc_on_demand, a_question_about_a_model_waits_too) {
    demanding_server server;
    server.hold();
    auto answer = std::async(std::launch::async, [&] {
        grpc::ClientContext context;
        ModelMetadataRequest request;
        request.set_name("m");
        ModelMetadataResponse got;
        return server.stub->ModelMetadata(&context, request, &got);
    });
    while (server.loads == 0) std::this_thread::yield();
    EXPECT_EQ(server.front->drain(50ms), 1U);
    server.open();
    const grpc::Status status = answer.get();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST(grpc_on_demand, compressed_messages_wait_too) {
    const demanding_server server;
    ModelInferRequest request = row(3);
    request.set_id(std::string(std::size_t{2} << 20, 'a'));  // several pieces
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    ModelInferResponse got;
    const grpc::Status status = server.stub->ModelInfer(&context, request, &got);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(first_of(got), 6);
}

TEST(grpc_on_demand, requests_of_a_stream_stay_in_their_order) {
    demanding_server server;
    server.hold();
    grpc::ClientContext context;
    const auto stream = server.stub->ModelStreamInfer(&context);
    for (int i = 0; i < 50; ++i) {
        ModelInferRequest request = row(static_cast<float>(100 + i));  // 13 fails
        request.set_id(std::to_string(i));
        ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
    while (server.loads == 0) std::this_thread::yield();
    {
        grpc::ClientContext other;
        ServerLiveResponse got;
        EXPECT_TRUE(server.stub->ServerLive(&other, {}, &got).ok());
    }
    server.open();
    ModelStreamInferResponse got;
    for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(stream->Read(&got));
        ASSERT_EQ(got.error_message(), "");
        ASSERT_EQ(got.infer_response().id(), std::to_string(i));
        ASSERT_EQ(first_of(got.infer_response()), static_cast<float>(2 * (100 + i)));
    }
    EXPECT_FALSE(stream->Read(&got));
    EXPECT_TRUE(stream->Finish().ok());
}

TEST(grpc_on_demand, a_load_that_fails_is_an_answer) {
    demanding_server server;
    server.on_load = [] { throw std::runtime_error("it is broken"); };
    for (int i = 0; i < 3; ++i) {
        const grpc::Status status = server.infer(row(1));
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_THAT(status.error_message(), HasSubstr("it is broken"));
    }
}

TEST(grpc_on_demand, a_deadline_holds_while_a_call_waits) {
    demanding_server server;
    server.hold();
    ModelInferResponse got;
    // Neither the time to connect counts, nor a call that was too late for the server.
    grpc::ClientContext context;
    ServerLiveResponse live;
    EXPECT_TRUE(server.stub->ServerLive(&context, {}, &live).ok());
    const auto end = std::chrono::steady_clock::now() + 20s;
    do {
        EXPECT_EQ(server.infer(row(1), got, 50ms).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    } while (server.loads == 0 && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(server.loads, 1);
    server.open();
    EXPECT_TRUE(server.infer(row(1)).ok());
}

TEST(grpc_on_demand, a_drain_answers_what_waits) {
    demanding_server server;
    server.hold();
    auto answer = std::async(std::launch::async, [&] { return server.infer(row(1)); });
    while (server.loads == 0) std::this_thread::yield();
    auto cut = std::async(std::launch::async, [&] { return server.front->drain(20s); });
    std::this_thread::sleep_for(50ms);
    server.open();
    EXPECT_TRUE(answer.get().ok());
    EXPECT_EQ(cut.get(), 0U);
}

}  // namespace
}  // namespace sluice::serve::grpc_on_demand_tests
