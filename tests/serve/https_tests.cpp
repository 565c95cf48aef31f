// SPDX-License-Identifier: Apache-2.0
// The front end with TLS: who gets in, how connections end, and what hostile clients get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>
#include <vector>

#include "serve/support/certificates.hpp"
#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "serve/support/tls_client.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/serve/client.hpp"

namespace sluice::serve::https_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using testing::certificates;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::post_request;
using testing::raw_client;
using testing::shared_certificates;
using testing::tls_client;
using testing::tls_client_options;

http_options secure(http_options options = {}, bool asks_clients = false) {
    const certificates& made = shared_certificates();
    options.tls = {.certificate = made.certificate("server"), .key = made.key("server")};
    if (asks_clients) options.tls.client_ca = made.certificate("ca");
    return options;
}

tls_client_options trusting(const std::string& name = {}) {
    const certificates& made = shared_certificates();
    tls_client_options options{.ca = made.certificate("ca")};
    if (!name.empty()) {
        options.certificate = made.certificate(name);
        options.key = made.key(name);
    }
    return options;
}

tls_client client_of(const http_server& server, const tls_client_options& options = trusting()) {
    return {server.front->port(), options};
}

TEST(https, requests_are_answered_one_after_the_other) {
    const http_server server(secure());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        tls_client_options options = trusting();
        options.version = version;
        options.alpn = "http/1.1";
        tls_client client = client_of(server, options);
        ASSERT_TRUE(client.is_connected()) << client.failure();
        EXPECT_EQ(client.alpn(), "http/1.1");
        for (int i = 20; i < 40; ++i) {
            const http_answer got = client.ask(infer_request(static_cast<float>(i)));
            EXPECT_EQ(got.status, 200);
            EXPECT_THAT(got.body, HasSubstr("\"data\":[" + std::to_string(2 * i) + "," + std::to_string(2 * i) + "]"));
        }
    }
}

TEST(https, requests_in_one_record_get_their_answers_in_order) {
    const http_server server(secure());
    tls_client client = client_of(server);
    client.send(infer_request(1) + infer_request(2) + get_request("/v2/health/live"));
    EXPECT_THAT(client.receive().body, HasSubstr("[2,2]"));
    EXPECT_THAT(client.receive().body, HasSubstr("[4,4]"));
    EXPECT_EQ(client.receive().status, 200);
}

// 4 MiB each way: many records, and more than the sockets hold while the client does not read.
TEST(https, long_bodies_go_both_ways) {
    const http_server server(secure());
    tls_client client = client_of(server);
    std::string numbers = "1";
    constexpr std::size_t rows = 500'000;
    for (std::size_t i = 1; i < 2 * rows; ++i) numbers += ",1";
    const std::string body = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[)" + std::to_string(rows) +
                             R"(,2],"data":[)" + numbers + "]}]}";
    client.send(post_request("/v2/models/m/infer", body));
    std::this_thread::sleep_for(200ms);  // the server meets a full socket
    const http_answer got = client.receive();
    EXPECT_EQ(got.status, 200);
    EXPECT_GT(got.body.size(), 4 * rows - 10);
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
}

TEST(https, a_body_in_single_bytes_is_read) {
    const http_server server(secure());
    tls_client client = client_of(server);
    for (const char each : infer_request(3)) client.send(std::string(1, each));
    EXPECT_THAT(client.receive().body, HasSubstr("[6,6]"));
}

TEST(https, versions_before_1_2_and_weak_suites_are_refused) {
    const http_server server(secure());
    for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
        tls_client_options options = trusting();
        options.version = version;
        tls_client client = client_of(server, options);
        EXPECT_FALSE(client.is_connected());
        EXPECT_THAT(client.failure(), AnyOf(HasSubstr("protocol version"), HasSubstr("unsupported protocol"),
                                            HasSubstr("no protocols available")));
    }
    tls_client_options options = trusting();
    options.version = TLS1_2_VERSION;
    options.suites = "ECDHE-ECDSA-AES128-SHA";  // CBC
    tls_client client = client_of(server, options);
    EXPECT_FALSE(client.is_connected());
    EXPECT_THAT(client.failure(), HasSubstr("handshake failure"));
    options.suites = "ECDHE-ECDSA-AES128-GCM-SHA256";
    EXPECT_TRUE(client_of(server, options).is_connected());
}

TEST(https, a_client_that_knows_only_another_protocol_is_refused) {
    const http_server server(secure());
    tls_client_options options = trusting();
    options.alpn = "h2";
    tls_client client = client_of(server, options);
    EXPECT_FALSE(client.is_connected());
    EXPECT_THAT(client.failure(), HasSubstr("no application protocol"));
}

TEST(https, renegotiation_is_refused) {
    const http_server server(secure());
    tls_client_options options = trusting();
    options.version = TLS1_2_VERSION;
    tls_client client = client_of(server, options);
    ASSERT_TRUE(client.is_connected()) << client.failure();
    ASSERT_EQ(::SSL_renegotiate(client.native()), 1);
    ::ERR_clear_error();
    EXPECT_NE(::SSL_do_handshake(client.native()), 1);
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 200);
}

TEST(https, a_client_needs_a_certificate_of_the_authority_where_one_is_named) {
    const http_server server(secure({}, true));
    EXPECT_EQ(client_of(server, trusting("client")).ask(infer_request(1)).status, 200);
    for (const std::string& name : {std::string(), std::string("stranger")}) {
        tls_client client = client_of(server, trusting(name));
        const http_answer got = client.ask(infer_request(1));  // with TLS 1.3 the server looks after the client's part
        EXPECT_EQ(got.status, 0);
        EXPECT_THAT(client.failure(), AnyOf(HasSubstr("certificate required"), HasSubstr("unknown ca")));
    }
    tls_client client = client_of(server, trusting("client"));
    EXPECT_THAT(client.ask(get_request("/metrics")).body, HasSubstr("sluice_http_failed_handshakes_total 2\n"));
}

TEST(https, tokens_are_asked_for_as_well) {
    http_options options = secure();
    options.clients = testing::client_with({"a-token-that-is-long"});
    const http_server server(options);
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 401);
    tls_client client = client_of(server);
    EXPECT_EQ(
        client.ask(post_request("/v2/repository/index", "{}", "Authorization: Bearer a-token-that-is-long\r\n")).status,
        200);
}

TEST(https, a_request_without_tls_learns_what_the_port_speaks) {
    const http_server server(secure());
    raw_client client = server.client();
    const http_answer got = client.ask(get_request("/v2/health/live"));
    EXPECT_EQ(got.status, 400);
    EXPECT_THAT(got.body, HasSubstr("https://"));
    client.end_of_input();
    EXPECT_TRUE(client.is_closed());
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 200);
}

TEST(https, garbage_gets_an_alert_and_an_end) {
    const http_server server(secure());
    for (const std::string& text :
         {std::string(3000, '\xff'), std::string("\x16\x03\x01\x40\x00", 5) + std::string(20000, 'x'),
          std::string("\x15\x03\x03\x00\x02\x02\x28", 7)}) {
        raw_client client = server.client();
        client.send(text);
        client.end_of_input();
        const http_answer got = client.receive();  // an alert is no answer
        EXPECT_EQ(got.status, 0);
    }
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 200);
}

TEST(https, a_slow_handshake_ends_at_the_limit_for_headers) {
    http_options options = secure();
    options.header_time = 1s;
    const http_server server(options);
    raw_client silent = server.client();
    raw_client slow = server.client();
    slow.send(std::string("\x16\x03\x01\x00\xf8", 5));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(slow.is_closed());
    EXPECT_TRUE(silent.is_closed());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);  // and not after idle_time, 75 s
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 200);
}

TEST(https, a_slow_request_is_answered_with_408_and_ended) {
    http_options options = secure();
    options.header_time = 1s;
    const http_server server(options);
    tls_client client = client_of(server);
    client.send("GET /v2 HT");
    EXPECT_EQ(client.receive().status, 408);
    EXPECT_TRUE(client.is_closed());
}

TEST(https, connections_end_with_close_notify) {
    http_options options = secure();
    options.idle_time = 300ms;
    const http_server server(options);
    tls_client idle = client_of(server);
    tls_client asks_for_it = client_of(server);
    EXPECT_EQ(asks_for_it.ask("GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status, 200);
    EXPECT_TRUE(asks_for_it.is_closed()) << asks_for_it.failure();
    EXPECT_TRUE(idle.is_closed()) << idle.failure();
    tls_client says_it = client_of(server);
    says_it.end_of_input();
    EXPECT_TRUE(says_it.is_closed()) << says_it.failure();
}

// close_notify ends one direction only.
TEST(https, a_client_that_sends_no_more_gets_its_answer) {
    const auto model = std::make_shared<testing::fake_model>();
    const http_server server(secure(), R"({"caller_thread_us": 0})", model);
    tls_client client = client_of(server);
    {
        const testing::held hold(*model);
        client.send(infer_request(4));
        client.end_of_input();
        model->wait_until_running();
        std::this_thread::sleep_for(150ms);  // the server looks for its client
    }
    http_answer got = client.receive();
    while (got.status == 100) got = client.receive();
    EXPECT_EQ(got.status, 200);
    EXPECT_THAT(got.body, HasSubstr("[8,8]"));
}

TEST(https, clients_that_vanish_do_no_harm) {
    const http_server server(secure());
    for (int i = 0; i < 20; ++i) {
        tls_client client = client_of(server);
        client.send(i % 2 == 0 ? infer_request(1) : std::string("POST /v2/mod"));
        client.tcp().reset();
    }
    EXPECT_EQ(client_of(server).ask(infer_request(1)).status, 200);
}

TEST(https, a_drain_answers_what_is_accepted) {
    const auto model = std::make_shared<testing::fake_model>();
    const http_server server(secure(), R"({"caller_thread_us": 0})", model);
    tls_client client = client_of(server), idle = client_of(server);
    std::jthread drains;
    {
        const testing::held hold(*model);
        client.send(infer_request(4));
        model->wait_until_running();
        drains = std::jthread([&] { EXPECT_EQ(server.front->drain(20s), 0U); });
        EXPECT_TRUE(idle.is_closed()) << idle.failure();
    }
    EXPECT_EQ(client.receive().status, 200);
    EXPECT_TRUE(client.is_closed()) << client.failure();
}

void replace(const certificates& made, const std::string& name, const std::string& by) {
    std::filesystem::rename(made.key(by), made.key(name));
    std::filesystem::rename(made.certificate(by), made.certificate(name));
}

TEST(https, a_new_certificate_is_used_and_a_wrong_one_is_not) {
    const certificates made;
    http_options options;
    options.tls = {.certificate = made.certificate("server"), .key = made.key("server")};
    const http_server server(options);
    const tls_client_options trust{.ca = made.certificate("ca")};
    const auto name = [&] { return tls_client(server.front->port(), trust).name_of_server(); };
    tls_client old(server.front->port(), trust);
    EXPECT_EQ(old.ask(infer_request(1)).status, 200);
    made.issue("fresh", "ca", "DNS:localhost");
    replace(made, "server", "fresh");
    for (int i = 0; i < 1000 && name() != "fresh"; ++i) std::this_thread::sleep_for(20ms);
    EXPECT_EQ(name(), "fresh");
    EXPECT_EQ(old.ask(infer_request(1)).status, 200);  // on its connection

    std::ofstream(made.certificate("server")) << "no certificate";
    std::this_thread::sleep_for(2500ms);  // two looks
    EXPECT_EQ(name(), "fresh");
}

serve::infer_request two_numbers() {
    serve::infer_request made{.model = "m"};
    made.inputs.push_back({"x", nn::any_tensor(std::vector<float>{1, 2}, {1, 2})});
    return made;
}

std::string failure_of(client& asks) {
    try {
        static_cast<void>(sync_wait(asks.infer(two_numbers())));
    } catch (const error& failure) {
        return failure.what();
    }
    return "none";
}

TEST(https, a_client_of_the_library_checks_the_server_and_shows_its_certificate) {
    const certificates& made = shared_certificates();
    const http_server server(secure({.address = "0.0.0.0"}, true));
    const std::string port = std::to_string(server.front->port());
    const client_options right{
        .ca = made.certificate("ca"), .certificate = made.certificate("client"), .key = made.key("client")};
    for (const std::string host : {"127.0.0.1", "localhost"}) {
        client asks("https://" + host + ":" + port, right);
        for (int i = 0; i < 3; ++i) {
            const infer_answer got = sync_wait(asks.infer(two_numbers()));
            EXPECT_THAT(got.at("y").values<float>(), ::testing::ElementsAre(2, 4));
        }
    }
    client_options options = right;
    options.ca = made.certificate("other-ca");
    client distrusts("https://127.0.0.1:" + port, options);
    EXPECT_THAT(failure_of(distrusts),
                AnyOf(HasSubstr("unable to get local issuer certificate"), HasSubstr("self-signed certificate")));
    client another_name("https://127.0.0.2:" + port, right);  // the same server
    EXPECT_THAT(failure_of(another_name), HasSubstr("IP address mismatch"));
    client nameless("https://127.0.0.1:" + port, {.ca = made.certificate("ca")});
    EXPECT_THAT(failure_of(nameless), HasSubstr("certificate required"));
    client plain("http://127.0.0.1:" + port);
    EXPECT_THROW(static_cast<void>(sync_wait(plain.infer(two_numbers()))), refusal);
    EXPECT_THROW(client("http://127.0.0.1:" + port, right), error);
}

struct wrong_files {
    const char* what;
    void (*spoil)(const certificates&, tls_files&);
    const char* says;
};
class wrong : public ::testing::TestWithParam<wrong_files> {};

TEST_P(wrong, files_are_refused_before_the_port_opens) {
    const certificates made;
    http_options options;
    options.tls = {.certificate = made.certificate("server"), .key = made.key("server")};
    GetParam().spoil(made, options.tls);
    try {
        const http_server server(options);
        FAIL() << "it listens";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr(GetParam().says));
    }
}

void write(const std::filesystem::path& to, std::string_view text) { std::ofstream(to) << text; }

INSTANTIATE_TEST_SUITE_P(
    https, wrong,
    ::testing::Values(
        wrong_files{"another_key", [](const certificates& made, tls_files& files) { files.key = made.key("client"); },
                    "does not belong to the key"},
        wrong_files{"expired", [](const certificates& made, tls_files&) { made.date("server", -7200, -3600); },
                    "has expired on"},
        wrong_files{"too_early", [](const certificates& made, tls_files&) { made.date("server", 3600, 7200); },
                    "is not valid before"},
        wrong_files{"no_certificate",
                    [](const certificates&, tls_files& files) { write(files.certificate, "nothing of the kind\n"); },
                    "no certificate in PEM"},
        wrong_files{"broken_certificate",
                    [](const certificates&, tls_files& files) {
                        write(files.certificate, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
                    },
                    "certificate number 1 is broken"},
        wrong_files{"broken_chain",
                    [](const certificates&, tls_files& files) {
                        std::ofstream(files.certificate, std::ios::app) << "-----BEGIN CERTIFICATE-----\n!\n";
                    },
                    "certificate number 2 is broken"},
        wrong_files{"no_key", [](const certificates&, tls_files& files) { write(files.key, "nothing\n"); },
                    "no private key in PEM"},
        wrong_files{"passphrase",
                    [](const certificates& made, tls_files& files) {
                        made.openssl("pkey -aes256 -passout pass:secret -in " + made.key("server").string() + " -out " +
                                     made.key("locked").string());
                        files.key = made.key("locked");
                    },
                    "has a passphrase"},
        wrong_files{"key_for_all", [](const certificates&, tls_files& files) { ::chmod(files.key.c_str(), 0644); },
                    "the mode of this file is 644"},
        wrong_files{"key_is_absent", [](const certificates&, tls_files& files) { files.key = "/nowhere.key"; },
                    "/nowhere.key"},
        wrong_files{"folder",
                    [](const certificates& made, tls_files& files) { files.certificate = made.folder().path(); },
                    "this is no file"},
        wrong_files{"only_a_certificate", [](const certificates&, tls_files& files) { files.key.clear(); },
                    "both a certificate and its key"},
        wrong_files{"only_an_authority",
                    [](const certificates& made, tls_files& files) { files = {.client_ca = made.certificate("ca")}; },
                    "both a certificate and its key"},
        wrong_files{"authority_without_certificates",
                    [](const certificates& made, tls_files& files) { files.client_ca = made.key("server"); },
                    "no certificate in PEM"}),
    [](const auto& each) { return each.param.what; });

TEST(https, a_key_that_its_group_may_read_is_accepted) {
    const certificates made;
    ::chmod(made.key("server").c_str(), 0640);
    http_options options;
    options.tls = {.certificate = made.certificate("server"), .key = made.key("server")};
    const http_server server(options);
    EXPECT_EQ(tls_client(server.front->port(), {.ca = made.certificate("ca")}).ask(infer_request(1)).status, 200);
}

}  // namespace
}  // namespace sluice::serve::https_tests
