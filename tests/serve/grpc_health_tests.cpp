// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1, by its messages on the wire: HealthCheckRequest {string service = 1}, HealthCheckResponse {status =
// 1}.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "serve/grpc/wire_reader.hpp"
#include "serve/grpc/wire_writer.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/support/known_clients.hpp"

namespace sluice::serve::grpc_health_tests {
namespace {

using testing::grpc_server;

enum status : std::uint64_t { unknown = 0, serving = 1, not_serving = 2, service_unknown = 3 };

grpc::ByteBuffer request_of(const std::string& service) {
    wire_writer message;
    if (!service.empty()) message.add_bytes(1, service);
    const grpc::Slice slice(message.text());
    return {&slice, 1};
}

std::uint64_t status_of(const grpc::ByteBuffer& answer) {
    grpc::Slice all;
    EXPECT_TRUE(answer.DumpToSingleSlice(&all).ok());
    wire_reader from(std::as_bytes(std::span(all.begin(), all.size())));
    std::uint64_t found = unknown;
    for (wire_reader::field field; from.next(field);) {
        if (field.is(1, wire_type::varint))
            found = from.read_varint();
        else
            from.skip(field);
    }
    return found;
}

class health_client {
public:
    explicit health_client(const grpc_server& server) : stub_(server.channel(grpc::InsecureChannelCredentials())) {}

    // None: the service's name is not known.
    std::optional<std::uint64_t> check(const std::string& service) {
        grpc::ClientContext context;
        grpc::CompletionQueue queue;
        grpc::ByteBuffer answer;
        grpc::Status ended;
        const auto call = stub_.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request_of(service), &queue);
        call->StartCall();
        call->Finish(&answer, &ended, this);
        wait(queue);
        if (ended.error_code() == grpc::StatusCode::NOT_FOUND) return std::nullopt;
        EXPECT_TRUE(ended.ok()) << ended.error_message();
        return status_of(answer);
    }

    static void wait(grpc::CompletionQueue& queue) {
        void* tag = nullptr;
        bool is_right = false;
        const auto limit = std::chrono::system_clock::now() + std::chrono::seconds(20);
        ASSERT_EQ(queue.AsyncNext(&tag, &is_right, limit), grpc::CompletionQueue::GOT_EVENT);
    }

    grpc::GenericStub& stub() { return stub_; }

private:
    grpc::GenericStub stub_;
};

// Until the server has looked at its states.
void expect_soon(health_client& client, const std::string& service, std::uint64_t wanted) {
    for (int i = 0; i < 2000 && client.check(service) != wanted; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(client.check(service), wanted) << service;
}

TEST(grpc_health, check_says_whether_the_server_and_its_models_answer) {
    const grpc_server server;
    health_client client(server);
    EXPECT_EQ(client.check(""), serving);
    EXPECT_EQ(client.check("inference.GRPCInferenceService"), serving);
    EXPECT_EQ(client.check("m"), serving);
    EXPECT_EQ(client.check("no such model"), std::nullopt);
    server.models->unload("m");
    expect_soon(client, "m", not_serving);
    EXPECT_EQ(client.check(""), serving);
    server.models->load("m");
    expect_soon(client, "m", serving);
    server.models->begin_drain();
    expect_soon(client, "", not_serving);
    expect_soon(client, "m", not_serving);
}

TEST(grpc_health, names_of_models_are_not_for_those_without_a_token) {
    const grpc_server server({.clients = testing::client_with({"a token of 16 or more"})});
    health_client client(server);
    EXPECT_EQ(client.check(""), serving);
    EXPECT_EQ(client.check("m"), std::nullopt);
}

TEST(grpc_health, watch_says_what_changes) {
    const grpc_server server;
    health_client client(server);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = client.stub().PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
    call->StartCall(&client);
    health_client::wait(queue);
    call->Write(request_of("m"), &client);
    health_client::wait(queue);
    const auto next = [&] {
        grpc::ByteBuffer answer;
        call->Read(&answer, &client);
        health_client::wait(queue);
        return status_of(answer);
    };
    EXPECT_EQ(next(), serving);
    server.models->unload("m");
    EXPECT_EQ(next(), not_serving);
    server.models->load("m");
    EXPECT_EQ(next(), serving);
    context.TryCancel();
    grpc::Status ended;
    call->Finish(&ended, &client);
    health_client::wait(queue);
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::CANCELLED);
    queue.Shutdown();
    void* tag = nullptr;
    bool is_right = false;
    while (queue.Next(&tag, &is_right)) {
    }
}

}  // namespace
}  // namespace sluice::serve::grpc_health_tests
