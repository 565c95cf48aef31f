// SPDX-License-Identifier: Apache-2.0
// Clients of gRPC that break the rules, frame by frame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/support/http2_bytes.hpp"
#include "serve/support/raw_client.hpp"

namespace sluice::serve::grpc_abuse_tests {
namespace {

using namespace std::chrono_literals;
using testing::frame;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::hello;
using testing::raw_client;

// HPACK, without its tables.
std::string headers_of(const std::string& method) {
    std::string made;
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                          {":scheme", "http"},
                                                          {":path", "/inference.GRPCInferenceService/" + method},
                                                          {":authority", "localhost"},
                                                          {"content-type", "application/grpc"},
                                                          {"te", "trailers"}}) {
        made += '\0';
        made += static_cast<char>(name.size());
        made += name;
        made += static_cast<char>(value.size());
        made += value;
    }
    return made;
}

bool answers(const grpc_server& server) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 20s);
    inference::ServerLiveResponse response;
    return server.stub->ServerLive(&context, {}, &response).ok() && response.live();
}

std::size_t metric(const grpc_server& server, const std::string& name) {
    const std::string text = server.front->metrics(), begin = "\n" + name + " ";
    const std::size_t at = text.find(begin);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + begin.size()));
}

// Whether the server ends the connection of a client that sends this again and again.
bool ends(const grpc_server& server, const std::function<std::string(std::uint32_t)>& part) {
    raw_client client(server.front->port());
    client.send(hello);
    for (std::uint32_t stream = 1; stream < 400'000; stream += 2)
        if (!client.send(part(stream))) return true;
    return false;
}

TEST(grpc_abuse, a_client_that_resets_its_streams_is_sent_away_and_others_are_answered) {
    const grpc_server server;
    const std::string headers = headers_of("ModelInfer");
    EXPECT_TRUE(
        ends(server, [&](std::uint32_t i) { return frame(1, 4, i, headers) + frame(3, 0, i, std::string(4, '\0')); }));
    EXPECT_TRUE(answers(server));
    EXPECT_EQ(metric(server, "sluice_grpc_abusive_connections_total"), 1U);
}

TEST(grpc_abuse, a_client_that_opens_streams_or_sends_frames_without_end_is_sent_away) {
    const grpc_server server;
    const std::string headers = headers_of("ModelInfer");
    EXPECT_TRUE(ends(server, [&](std::uint32_t i) { return frame(1, 4, i, headers); }));
    EXPECT_TRUE(ends(server, [](std::uint32_t) { return frame(4, 0, 0, std::string("\0\3\0\0\0\1", 6)); }));
    EXPECT_TRUE(ends(server, [](std::uint32_t) { return frame(6, 0, 0, "12345678"); }));
    EXPECT_TRUE(ends(server, [&](std::uint32_t i) { return i == 1 ? frame(1, 0, 1, headers) : frame(9, 0, 1, "\0"); }));
    EXPECT_TRUE(answers(server));
}

TEST(grpc_abuse, streams_count_for_the_memory_of_requests_and_give_it_back) {
    auto budget = std::make_shared<request_budget>(std::size_t{1} << 20);
    const grpc_server server({.budget = budget});
    {
        raw_client client(server.front->port());
        client.send(hello);
        const std::string headers = headers_of("ModelInfer");
        for (std::uint32_t i = 1; i < 60; i += 2) client.send(frame(1, 4, i, headers));
        while (budget->bytes() == 0) std::this_thread::yield();
        EXPECT_LE(budget->bytes(), budget->most_bytes() / 4);
    }
    testing::expect_given_back(*budget);
    EXPECT_TRUE(answers(server));
}

// A call that is open; when this is true, the server has seen it.
bool opens_call(raw_client& client) {
    client.send(hello + frame(1, 4, 1, headers_of("ModelInfer")) + frame(6, 0, 0, "opened 1"));
    return testing::gets_answer_to_ping(client, "opened 1");
}

TEST(grpc_abuse, connections_have_a_limit) {
    const grpc_server server({.connections = 2});
    raw_client first(server.front->port()), second(server.front->port());
    ASSERT_TRUE(opens_call(first));
    ASSERT_TRUE(opens_call(second));
    raw_client third(server.front->port());
    EXPECT_TRUE(third.is_closed());
    EXPECT_EQ(metric(server, "sluice_grpc_refused_connections_total"), 1U);
    EXPECT_EQ(metric(server, "sluice_grpc_connections"), 2U);
}

TEST(grpc_abuse, at_the_limit_a_connection_without_calls_makes_room) {
    const grpc_server server({.connections = 2});
    raw_client busy(server.front->port()), idle(server.front->port());
    ASSERT_TRUE(opens_call(busy));
    ASSERT_TRUE(opens_call(idle));
    idle.send(frame(3, 0, 1, std::string("\0\0\0\x8", 4)) + frame(6, 0, 0, "no calls"));  // resets its call
    ASSERT_TRUE(testing::gets_answer_to_ping(idle, "no calls"));
    EXPECT_TRUE(answers(server));  // on a third connection
    std::string received;
    std::array<char, 4096> some{};
    for (ssize_t got = 1; got > 0; received.append(some.data(), static_cast<std::size_t>(got)))
        got = std::max<ssize_t>(::recv(idle.socket(), some.data(), some.size(), 0), 0);
    // GOAWAY without an error: calls after the first may be opened elsewhere.
    EXPECT_THAT(received, HasSubstr(frame(7, 0, 0, std::string("\0\0\0\1\0\0\0\0", 8))));
    busy.send(frame(6, 0, 0, "is there"));
    EXPECT_TRUE(testing::gets_answer_to_ping(busy, "is there"));
    EXPECT_EQ(metric(server, "sluice_grpc_refused_connections_total"), 0U);
}

TEST(grpc_abuse, other_names_than_those_of_this_machine_are_refused) {
    const grpc_server server({.host_names = {"inference.example.org"}});
    const auto ask = [&](const std::string& host) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + 20s);
        context.set_authority(host);
        inference::ServerLiveResponse response;
        return server.stub->ServerLive(&context, {}, &response);
    };
    for (const char* const each : {"localhost", "127.0.0.1:1", "[::1]:8001", "inference.example.org"})
        EXPECT_TRUE(ask(each).ok()) << each;
    for (const char* const each : {"evil.example", "127.0.0.1.evil.example:8001"}) {
        const grpc::Status refused = ask(each);
        EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED) << each;
        EXPECT_THAT(refused.error_message(), HasSubstr("--host-name"));
    }
    grpc::ClientContext context;
    context.set_authority("evil.example");
    inference::RepositoryModelUnloadRequest unload;
    unload.set_model_name("m");
    inference::RepositoryModelUnloadResponse ignored;
    EXPECT_EQ(server.stub->RepositoryModelUnload(&context, unload, &ignored).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace sluice::serve::grpc_abuse_tests
