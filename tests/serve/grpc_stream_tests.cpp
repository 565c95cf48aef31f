// SPDX-License-Identifier: Apache-2.0
// Streams of requests: order, errors, ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/grpc_server.hpp"
#include "serve/support/known_clients.hpp"

namespace sluice::serve::grpc_stream_tests {
namespace {

using namespace std::chrono_literals;
using namespace inference;
using ::testing::AnyOf;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

struct open_stream {
    explicit open_stream(const grpc_server& server, std::chrono::milliseconds time = 20s,
                         const std::string& token = {}) {
        context.set_deadline(std::chrono::system_clock::now() + time);
        if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
        call = server.stub->ModelStreamInfer(&context);
    }
    open_stream(const open_stream&) = delete;
    open_stream& operator=(const open_stream&) = delete;
    ~open_stream() { context.TryCancel(); }

    void ask(float value, const std::string& id = {}) const {
        ModelInferRequest request = row(value, true);
        request.set_id(id.empty() ? std::to_string(static_cast<int>(value)) : id);
        call->Write(request);
    }

    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>> call;
};

float first_of(const ModelStreamInferResponse& got) {
    float value = -1;
    if (got.infer_response().raw_output_contents_size() == 1)
        std::memcpy(&value, got.infer_response().raw_output_contents(0).data(), sizeof(value));
    return value;
}

TEST(grpc_stream, requests_are_answered_in_their_order) {
    const grpc_server server;
    const open_stream stream(server);
    constexpr int count = 500;  // more than are in the server at a time
    std::thread asks([&] {
        for (int i = 0; i < count; ++i) stream.ask(static_cast<float>(1000 + i));
        stream.call->WritesDone();
    });
    ModelStreamInferResponse got;
    for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(stream.call->Read(&got));
        ASSERT_EQ(got.error_message(), "");
        ASSERT_EQ(got.infer_response().id(), std::to_string(1000 + i));
        ASSERT_EQ(got.infer_response().model_name(), "m");
        ASSERT_EQ(first_of(got), static_cast<float>(2 * (1000 + i)));
    }
    EXPECT_FALSE(stream.call->Read(&got));
    asks.join();
    EXPECT_TRUE(stream.call->Finish().ok());
}

TEST(grpc_stream, a_request_that_is_refused_has_an_answer_and_the_stream_goes_on) {
    const grpc_server server;
    const open_stream stream(server);
    ModelInferRequest wrong = row(1, true);
    wrong.set_model_name("other");
    wrong.set_id("wrong");
    stream.call->Write(wrong);
    stream.ask(testing::bad_number, "bad");
    stream.ask(3, "right");
    stream.call->WritesDone();
    ModelStreamInferResponse got;
    ASSERT_TRUE(stream.call->Read(&got));
    EXPECT_THAT(got.error_message(), HasSubstr("there is no model 'other'"));
    EXPECT_EQ(got.infer_response().id(), "wrong");
    ASSERT_TRUE(stream.call->Read(&got));
    EXPECT_THAT(got.error_message(), HasSubstr("13 is out of range"));
    EXPECT_EQ(got.infer_response().id(), "bad");
    ASSERT_TRUE(stream.call->Read(&got));
    EXPECT_EQ(got.error_message(), "");
    EXPECT_EQ(first_of(got), 6);
    EXPECT_FALSE(stream.call->Read(&got));
    EXPECT_TRUE(stream.call->Finish().ok());
}

TEST(grpc_stream, what_is_no_message_has_an_answer_and_the_stream_goes_on) {
    const grpc_server server;
    testing::raw_call stream(server, "ModelStreamInfer");
    ASSERT_TRUE(stream.send("\x0a\x7f"));
    ASSERT_TRUE(stream.send(row(3, true)));
    stream.end();
    ModelStreamInferResponse got;
    ASSERT_TRUE(stream.read(got));
    EXPECT_EQ(got.error_message(), "the message is no ModelInferRequest: a length is beyond its end");
    ASSERT_TRUE(stream.read(got));
    EXPECT_EQ(got.error_message(), "");
    EXPECT_EQ(first_of(got), 6);
    EXPECT_TRUE(stream.finish().ok());
}

// Requests that came together are one batch, though the thread that takes them computes it.
TEST(grpc_stream, requests_that_wait_are_joined) {
    const grpc_server server({}, R"({"max_batch": 64})");
    server.fake->hold();  // forgets the runs in which the model was timed
    server.fake->open();
    const open_stream stream(server);
    constexpr int count = 2000;
    std::thread asks([&] {
        for (int i = 0; i < count; ++i) stream.ask(1000, std::to_string(i));
        stream.call->WritesDone();
    });
    ModelStreamInferResponse got;
    for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(stream.call->Read(&got));
        ASSERT_EQ(got.infer_response().id(), std::to_string(i));
        ASSERT_EQ(first_of(got), 2000);
    }
    asks.join();
    const auto most = std::ranges::max(server.fake->batches());
    EXPECT_GT(most, 1U);
}

TEST(grpc_stream, a_full_queue_is_an_answer) {
    const grpc_server server({}, R"({"queue": 1, "max_batch": 1, "caller_thread_us": 0})");
    const open_stream stream(server);
    {
        const testing::held hold(*server.fake);
        stream.ask(1);
        server.fake->wait_until_running();
        stream.ask(2);
        stream.ask(3);
        while (server.models->find("m")->statistics().refused_full == 0) std::this_thread::yield();
    }
    stream.call->WritesDone();
    ModelStreamInferResponse got;
    for (const char* id : {"1", "2"}) {
        ASSERT_TRUE(stream.call->Read(&got));
        EXPECT_EQ(got.infer_response().id(), id);
        EXPECT_EQ(got.error_message(), "");
    }
    ASSERT_TRUE(stream.call->Read(&got));
    EXPECT_EQ(got.infer_response().id(), "3");
    EXPECT_THAT(got.error_message(), HasSubstr("queue"));
}

TEST(grpc_stream, a_client_that_leaves_is_not_computed_for) {
    const grpc_server server({}, R"({"max_batch": 1, "caller_thread_us": 0})");
    const auto model = server.models->find("m");
    {
        const testing::held hold(*server.fake);
        open_stream stream(server);
        stream.ask(1);
        server.fake->wait_until_running();
        stream.ask(2);
        while (model->statistics().waiting == 0) std::this_thread::yield();
        stream.context.TryCancel();
        EXPECT_EQ(stream.call->Finish().error_code(), grpc::StatusCode::CANCELLED);
        std::this_thread::sleep_for(100ms);  // the server hears of it
    }
    while (model->statistics().cancelled == 0) std::this_thread::yield();
    EXPECT_EQ(server.fake->batches().size(), 1U);
    EXPECT_TRUE(server.infer(row(4)).ok());
}

TEST(grpc_stream, its_deadline_holds_for_its_requests) {
    const grpc_server server({}, R"({"max_batch": 1, "caller_thread_us": 0})");
    const auto model = server.models->find("m");
    std::future<grpc::Status> running;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        const open_stream stream(server, 1s);  // long enough to arrive
        stream.ask(2);
        while (model->statistics().waiting == 0) std::this_thread::yield();
        ModelStreamInferResponse got;
        EXPECT_FALSE(stream.call->Read(&got));
        EXPECT_EQ(stream.call->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
        std::this_thread::sleep_for(100ms);  // the server's deadline is later by the time that the message took
    }
    EXPECT_TRUE(running.get().ok());
    while (model->statistics().refused_late + model->statistics().cancelled == 0) std::this_thread::yield();
    EXPECT_EQ(server.fake->batches().size(), 1U);
}

// The held batch is not computed on the thread of the streams: that thread ends the idle one.
TEST(grpc_stream, a_drain_answers_what_was_accepted_and_ends_streams_that_wait) {
    grpc_server server({}, R"({"caller_thread_us": 0})");
    const open_stream idle(server), busy(server);
    ModelStreamInferResponse got;
    idle.ask(1);
    ASSERT_TRUE(idle.call->Read(&got));
    std::future<std::size_t> cut;
    {
        const testing::held hold(*server.fake);
        busy.ask(2);
        server.fake->wait_until_running();
        cut = std::async(std::launch::async, [&] { return server.front->drain(20s); });
        EXPECT_FALSE(idle.call->Read(&got));
        EXPECT_EQ(idle.call->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_EQ(cut.wait_for(0s), std::future_status::timeout);
    }
    ASSERT_TRUE(busy.call->Read(&got));
    EXPECT_EQ(first_of(got), 4);
    EXPECT_FALSE(busy.call->Read(&got));
    EXPECT_EQ(busy.call->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(cut.get(), 0U);
}

TEST(grpc_stream, a_server_may_end_at_any_time) {
    for (int round = 0; round < 30; ++round) {
        grpc_server server;
        std::vector<std::jthread> clients;
        std::atomic<int> answered{0};
        for (int i = 0; i < 4; ++i) {
            clients.emplace_back([&server, &answered] {
                const open_stream stream(server);
                std::jthread asks([&stream] {
                    ModelInferRequest request = row(1, true);
                    for (int id = 0; id < 100'000; ++id) {
                        request.set_id(std::to_string(id));
                        if (!stream.call->Write(request)) return;
                    }
                });
                ModelStreamInferResponse got;
                for (int id = 0; stream.call->Read(&got); ++id) {
                    EXPECT_EQ(got.infer_response().id(), std::to_string(id));
                    if (got.error_message().empty())
                        ++answered;
                    else
                        EXPECT_THAT(got.error_message(), HasSubstr("the server ends"));
                }
                // Rarely, of a client that sends at this moment, gRPC resets the stream before the status has arrived.
                EXPECT_THAT(stream.call->Finish().error_code(),
                            AnyOf(grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED));
            });
        }
        while (answered < 10 * round) std::this_thread::yield();
        EXPECT_EQ(server.front->drain(20s), 0U);
        clients.clear();
    }
}

TEST(grpc_stream, needs_a_token_where_calls_do) {
    const grpc_server server({.clients = testing::client_with({"a-token-that-is-long"})});
    const open_stream stream(server);
    ModelStreamInferResponse got;
    EXPECT_FALSE(stream.call->Read(&got));
    EXPECT_EQ(stream.call->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(grpc_stream, a_token_that_is_taken_away_is_no_token_of_an_open_stream) {
    const auto clients = testing::list_of(
        {{.name = "one", .tokens = {"first-token", "second-token"}}, {.name = "other", .tokens = {"third-token"}}});
    const grpc_server server({.clients = clients});
    const open_stream stream(server, 20s, "first-token"), stays(server, 20s, "second-token");
    const auto answer = [](const open_stream& from) {
        ModelStreamInferResponse got;
        from.ask(3);
        EXPECT_TRUE(from.call->Read(&got));
        return got;
    };
    EXPECT_EQ(first_of(answer(stream)), 6);
    clients->replace({{.name = "one", .tokens = {"second-token"}}});
    EXPECT_THAT(answer(stream).error_message(), HasSubstr("has changed; open another one"));
    EXPECT_EQ(first_of(answer(stays)), 6);
}

}  // namespace
}  // namespace sluice::serve::grpc_stream_tests
