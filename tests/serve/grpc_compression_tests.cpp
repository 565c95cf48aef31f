// SPDX-License-Identifier: Apache-2.0
// Messages of gRPC that their client has compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/unpack_body.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::grpc_compression_tests {
namespace {

using namespace inference;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

constexpr std::size_t mib = 1 << 20;

// A message that becomes a little longer than this.
ModelInferRequest long_request(std::size_t bytes) {
    ModelInferRequest made = row(3);
    made.set_id(std::string(bytes, 'a'));
    return made;
}

grpc::Status infer(const grpc_server& server, const ModelInferRequest& request, ModelInferResponse& got,
                   grpc_compression_algorithm coding = GRPC_COMPRESS_GZIP) {
    grpc::ClientContext context;
    context.set_compression_algorithm(coding);
    return server.stub->ModelInfer(&context, request, &got);
}

TEST(grpc_compression, messages_of_both_codings_are_answered) {
    const auto budget = std::make_shared<request_budget>(16 * mib);
    const grpc_server server({.budget = budget});
    for (const grpc_compression_algorithm each : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
        for (const std::size_t bytes : {std::size_t{100}, std::size_t{100} << 10, mib}) {  // up to several pieces
            ModelInferResponse got;
            const grpc::Status status = infer(server, long_request(bytes), got, each);
            ASSERT_TRUE(status.ok()) << status.error_message();
            EXPECT_EQ(got.id().size(), bytes);
            ASSERT_EQ(got.raw_output_contents_size(), 1);
        }
    }
    testing::expect_given_back(*budget);
}

TEST(grpc_compression, requests_of_a_stream_keep_their_order) {
    const grpc_server server;
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    const auto stream = server.stub->ModelStreamInfer(&context);
    const auto length = [](int i) { return i % 3 == 0 ? mib : std::size_t{10}; };
    std::thread asks([&] {
        for (int i = 0; i < 30; ++i) {
            grpc::WriteOptions options;
            if (i % 2 == 1) options.set_no_compression();
            stream->Write(long_request(length(i) + static_cast<std::size_t>(i)), options);
        }
        stream->WritesDone();
    });
    ModelStreamInferResponse got;
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(stream->Read(&got));
        EXPECT_EQ(got.error_message(), "");
        EXPECT_EQ(got.infer_response().id().size(), length(i) + static_cast<std::size_t>(i));
    }
    asks.join();
    EXPECT_TRUE(stream->Finish().ok());
}

TEST(grpc_compression, what_would_become_too_long_is_refused_before_it_takes_the_memory) {
    const auto budget = std::make_shared<request_budget>(3 * mib);
    const grpc_server server({.message_bytes = mib, .budget = budget});
    ModelInferResponse got;
    const grpc::Status too_long = infer(server, long_request(16 * mib), got);
    EXPECT_EQ(too_long.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(too_long.error_message(), HasSubstr("would become longer than the 1048576 bytes"));
    testing::expect_given_back(*budget);
    ASSERT_TRUE(budget->take(2 * mib + mib / 2));
    const grpc::Status in_use = infer(server, long_request(mib - 1000), got);
    EXPECT_EQ(in_use.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(in_use.error_message(), HasSubstr("memory for requests is in use"));
    budget->give(2 * mib + mib / 2);
    testing::expect_given_back(*budget);
    EXPECT_TRUE(infer(server, row(1), got).ok());
}

TEST(grpc_compression, messages_of_other_calls_are_read_and_bounded) {
    const auto budget = std::make_shared<request_budget>(64 * mib);
    const grpc_server server({.budget = budget});
    const auto ask = [&](std::size_t bytes) {
        grpc::ClientContext context;
        context.set_compression_algorithm(GRPC_COMPRESS_DEFLATE);
        ModelReadyRequest request;
        request.set_name("m");
        request.set_version("1");
        request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(99, std::string(bytes, 'a'));
        ModelReadyResponse got;
        const grpc::Status status = server.stub->ModelReady(&context, request, &got);
        EXPECT_EQ(got.ready(), status.ok());
        return status;
    };
    EXPECT_TRUE(ask(0).ok());
    EXPECT_TRUE(ask(100'000).ok());
    EXPECT_THAT(ask(2 * mib).error_message(), HasSubstr("would become longer than the 1048576 bytes"));
    testing::expect_given_back(*budget);
}

TEST(grpc_compression, the_state_of_zlib_is_memory_of_requests) {
    const std::size_t bytes = 40 << 10;  // for the message, which is shorter than this
    const auto ask = [](std::size_t most) {
        const auto budget = std::make_shared<request_budget>(most);
        const grpc_server server({.budget = budget});
        ModelInferResponse got;
        const grpc::Status status = infer(server, long_request(100), got);
        testing::expect_given_back(*budget);
        return status.error_code();
    };
    EXPECT_EQ(ask(bytes), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ask(bytes + body_unpacker::state_bytes), grpc::StatusCode::OK);
}

TEST(grpc_compression, refusals_are_about_the_message) {
    const grpc_server server({.message_bytes = mib});
    ModelInferResponse got;
    EXPECT_THAT(infer(server, long_request(2 * mib), got).error_message(), HasSubstr("the message would become"));
}

// This one would be refused for what it becomes, after a while.
TEST(grpc_compression, a_server_that_ends_unpacks_nothing) {
    const grpc_server server({.message_bytes = mib});
    server.models->begin_drain();
    ModelInferResponse got;
    const grpc::Status status = infer(server, long_request(8 * mib), got);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(), HasSubstr("the server ends"));
}

// Its memory doubles while it is unpacked, so its half shows that it is not done.
TEST(grpc_compression, other_calls_are_answered_between_the_pieces) {
    const auto budget = std::make_shared<request_budget>(256 * mib);
    const grpc_server server({.budget = budget});
    const ModelInferRequest long_one = long_request(32 * mib);
    bool was_between = false;
    for (int attempt = 0; attempt < 30 && !was_between; ++attempt) {
        const auto big = std::async(std::launch::async, [&] {
            ModelInferResponse got;
            return infer(server, long_one, got).ok();
        });
        while (budget->bytes() < mib && big.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
            std::this_thread::yield();
        ASSERT_TRUE(server.infer(row(1)).ok());
        was_between = budget->bytes() >= mib && budget->bytes() < 40 * mib;
        big.wait();
        testing::expect_given_back(*budget);
    }
    EXPECT_TRUE(was_between);
}

}  // namespace
}  // namespace sluice::serve::grpc_compression_tests
