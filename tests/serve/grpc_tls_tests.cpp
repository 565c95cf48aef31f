// SPDX-License-Identifier: Apache-2.0
// gRPC with TLS: who gets in, and what happens to certificates that change. What is wrong in the files is tested with
// HTTPS, which reads them with the same code.
#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "serve/support/certificates.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/support/http2_bytes.hpp"
#include "serve/support/known_clients.hpp"
#include "serve/support/tls_client.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::grpc_tls_tests {
namespace {

using namespace std::chrono_literals;
using testing::certificates;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;
using testing::shared_certificates;
using testing::tls_client;
using testing::tls_client_options;

grpc_options secure(const certificates& made, bool asks_clients = false, grpc_options options = {}) {
    options.tls = {.certificate = made.certificate("server"), .key = made.key("server")};
    if (asks_clients) options.tls.client_ca = made.certificate("ca");
    return options;
}

std::shared_ptr<grpc::ChannelCredentials> trusting(const certificates& made, const std::string& ca,
                                                   const std::string& shown = {}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = io::testing::read_file(made.certificate(ca).string());
    if (!shown.empty()) {
        options.pem_cert_chain = io::testing::read_file(made.certificate(shown).string());
        options.pem_private_key = io::testing::read_file(made.key(shown).string());
    }
    return grpc::SslCredentials(options);
}

grpc::Status ask(const grpc_server& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                 const std::string& token = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 20s);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    inference::ModelInferResponse ignored;
    return server.client(credentials)->ModelInfer(&context, row(1), &ignored);
}

TEST(grpc_tls, answers_clients_that_trust_it_and_no_others) {
    const certificates& made = shared_certificates();
    const grpc_server server(secure(made));
    const grpc::Status right = ask(server, trusting(made, "ca"));
    EXPECT_TRUE(right.ok()) << right.error_message();
    EXPECT_EQ(ask(server, trusting(made, "other-ca")).error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ask(server, grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(grpc_tls, a_client_needs_a_certificate_of_the_authority_where_one_is_named) {
    const certificates& made = shared_certificates();
    const grpc_server server(secure(made, true));
    const grpc::Status right = ask(server, trusting(made, "ca", "client"));
    EXPECT_TRUE(right.ok()) << right.error_message();
    EXPECT_EQ(ask(server, trusting(made, "ca")).error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ask(server, trusting(made, "ca", "stranger")).error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(ask(server, trusting(made, "ca", "client")).ok());
}

TEST(grpc_tls, tokens_are_asked_for_as_well) {
    const certificates& made = shared_certificates();
    const grpc_server server(secure(made, true, {.clients = testing::client_with({"a-token-that-is-long"})}));
    EXPECT_EQ(ask(server, trusting(made, "ca", "client")).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_TRUE(ask(server, trusting(made, "ca", "client"), "a-token-that-is-long").ok());
}

TEST(grpc_tls, versions_before_1_2_are_refused) {
    const certificates& made = shared_certificates();
    const grpc_server server(secure(made));
    const auto connects = [&](int version) {
        tls_client_options options{.ca = made.certificate("ca")};
        options.version = version;
        options.alpn = "h2";
        return tls_client(server.front->port(), options).is_connected();
    };
    EXPECT_TRUE(connects(TLS1_3_VERSION));
    EXPECT_TRUE(connects(TLS1_2_VERSION));
    EXPECT_FALSE(connects(TLS1_1_VERSION));
}

TEST(grpc_tls, a_new_certificate_is_used_and_a_wrong_one_is_not) {
    const certificates made;
    const grpc_server server(secure(made));
    const auto name = [&] {
        tls_client_options options{.ca = made.certificate("ca")};
        options.alpn = "h2";
        return tls_client(server.front->port(), options).name_of_server();
    };
    const auto old = server.client(trusting(made, "ca"));
    const auto ask_old = [&] {
        grpc::ClientContext context;
        inference::ModelInferResponse ignored;
        return old->ModelInfer(&context, row(1), &ignored).ok();
    };
    EXPECT_TRUE(ask_old());
    EXPECT_EQ(name(), "server");
    made.issue("fresh", "ca", "IP:127.0.0.1,DNS:localhost");
    for (const bool is_key : {true, false}) {
        const auto path = [&](const std::string& of) { return is_key ? made.key(of) : made.certificate(of); };
        std::filesystem::rename(path("fresh"), path("server"));
    }
    for (int i = 0; i < 1000 && name() != "fresh"; ++i) std::this_thread::sleep_for(20ms);
    EXPECT_EQ(name(), "fresh");
    EXPECT_TRUE(ask_old());  // on its connection
    EXPECT_TRUE(ask(server, trusting(made, "ca")).ok());

    std::ofstream(made.certificate("server")) << "no certificate";
    std::this_thread::sleep_for(2500ms);  // two looks
    EXPECT_EQ(name(), "fresh");
}

// A record without data (KeyUpdate) and a request after it are one change of the socket.
TEST(grpc_tls, a_request_behind_new_keys_is_read) {
    const certificates& made = shared_certificates();
    const grpc_server server(secure(made));
    tls_client_options options{.ca = made.certificate("ca")};
    options.version = TLS1_3_VERSION;
    options.alpn = "h2";
    tls_client client(server.front->port(), options);
    ASSERT_TRUE(client.is_connected());
    const auto gets_answer = [&](const std::string& with) {
        std::string received;
        while (!testing::has_answer_to_ping(received, with)) {
            char some[4096];
            const int got = ::SSL_read(client.native(), some, sizeof(some));
            if (got <= 0) return false;
            received.append(some, static_cast<std::size_t>(got));
        }
        return true;
    };
    client.send(testing::hello);
    client.send(testing::frame(6, 0, 0, "first .."));
    ASSERT_TRUE(gets_answer("first .."));  // now nothing is on its way
    for (const int kind : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
        const std::string word = kind == SSL_KEY_UPDATE_REQUESTED ? "the last" : "new keys";
        int cork = 1;
        ::setsockopt(client.tcp().socket(), IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork));
        ASSERT_EQ(::SSL_key_update(client.native(), kind), 1);
        client.send(testing::frame(6, 0, 0, word));  // after the update, in the same segment
        cork = 0;
        ::setsockopt(client.tcp().socket(), IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork));
        EXPECT_TRUE(gets_answer(word));
    }
}

TEST(grpc_tls, files_that_are_wrong_are_refused_before_the_port_opens) {
    const certificates& made = shared_certificates();
    grpc_options options = secure(made);
    options.tls.key = made.key("client");
    try {
        const grpc_server server(options);
        FAIL() << "it listens";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("does not belong to the key"));
    }
}

}  // namespace
}  // namespace sluice::serve::grpc_tls_tests
