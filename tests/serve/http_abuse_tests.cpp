// SPDX-License-Identifier: Apache-2.0
// Clients that break the rules, on purpose or not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/http_server.hpp"

namespace sluice::serve::http_abuse_tests {
namespace {

using namespace std::chrono_literals;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::post_request;
using testing::raw_client;

const std::string post = "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n";
const std::string get = "GET /v2 HTTP/1.1\r\n";

struct abuse {
    const char* what;
    std::string text;
    int status;
    const char* says = "";
};
class abuses : public ::testing::TestWithParam<abuse> {};

// Each is followed by a request that a proxy may take for a part of it, or for the next one: it gets no answer.
TEST_P(abuses, are_refused_and_the_connection_ends) {
    const http_server server;
    raw_client client = server.client();
    client.send(GetParam().text + get_request("/v2/health/live"));
    const http_answer got = client.receive();
    EXPECT_EQ(got.status, GetParam().status) << got.body;
    EXPECT_EQ(got.field("Connection"), "close");
    EXPECT_THAT(got.body, HasSubstr(GetParam().says));
    client.end_of_input();
    EXPECT_TRUE(client.is_closed());
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

INSTANTIATE_TEST_SUITE_P(
    smuggling, abuses,
    ::testing::Values(
        abuse{"length_and_chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        abuse{"chunked_and_length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
        abuse{"two_lengths", post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400},
        abuse{"same_lengths", post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "twice"},
        abuse{"list_of_lengths", post + "Content-Length: 2, 2\r\n\r\n{}", 400},
        abuse{"signed_length", post + "Content-Length: +2\r\n\r\n{}", 400},
        abuse{"negative_length", post + "Content-Length: -2\r\n\r\n{}", 400},
        abuse{"hex_length", post + "Content-Length: 0x2\r\n\r\n{}", 400},
        abuse{"endless_length", post + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
        abuse{"gzip_chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "only chunked"},
        abuse{"chunked_twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        abuse{"odd_coding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "only chunked"},
        abuse{"space_before_colon", post + "Content-Length : 2\r\n\r\n{}", 400},
        abuse{"bare_line_feeds", "GET /v2 HTTP/1.1\nHost: localhost\n\n", 400},
        abuse{"bad_chunk_length", post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        abuse{"chunk_length_overflow", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
        abuse{"chunk_without_end", post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n", 400},
        abuse{"zero_in_field", get + std::string("Host: te\0st\r\n\r\n", 15), 400}),
    [](const auto& each) { return each.param.what; });

INSTANTIATE_TEST_SUITE_P(
    form, abuses,
    ::testing::Values(abuse{"tls", std::string("\x16\x03\x01\x00\xa5\x01\x00\x00", 8), 400},
                      abuse{"http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
                      abuse{"no_host", get + "\r\n", 400, "Host"},
                      abuse{"two_hosts", get + "Host: a\r\nHost: b\r\n\r\n", 400, "twice"},
                      abuse{"long_header", get + "Host: a\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n", 431},
                      abuse{"long_target", "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
                      abuse{"many_fields",
                            [] {
                                std::string text = get + "Host: a\r\n";
                                for (int i = 0; i < 200; ++i) text += "X: a\r\n";
                                return text + "\r\n";
                            }(),
                            431, "100 fields"},
                      abuse{"json_length", post + "Inference-Header-Content-Length: x\r\nContent-Length: 2\r\n\r\n{}",
                            400, "Inference-Header-Content-Length"},
                      abuse{"json_length_twice",
                            post + "Inference-Header-Content-Length: 2\r\nInference-Header-Content-Length: 2\r\n"
                                   "Content-Length: 2\r\n\r\n{}",
                            400, "twice"}),
    [](const auto& each) { return each.param.what; });

// Their bodies are not read.
INSTANTIATE_TEST_SUITE_P(
    headers, abuses,
    ::testing::Values(
        abuse{"long_body", post + "Content-Length: 100000000\r\n\r\n", 413, "accepted are 67108864"},
        abuse{"form_data", post + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}", 415,
              "accepted are application/json"},
        abuse{"plain_text", post + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415},
        abuse{"br", post + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", 415, "gzip and deflate"},
        abuse{"gzip_list", post + "Content-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\n{}", 415, "encoding"},
        abuse{"gzip_twice", post + "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
              415, "encoding"},
        abuse{"another_site", post + "Origin: http://evil.example\r\nContent-Length: 2\r\n\r\n{}", 403, "other sites"},
        abuse{"no_site", post + "Origin: null\r\nContent-Length: 2\r\n\r\n{}", 403},
        abuse{"no_path", "POST /v2/models/../infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 404},
        abuse{"encoded_path", "POST /v2/models/%6d/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
              404}),
    [](const auto& each) { return each.param.what; });

TEST(abuse, the_servers_own_page_may_ask) {
    const http_server server;
    EXPECT_EQ(server.ask(post_request("/v2/models/m/infer", "{}", "Origin: http://localhost\r\n")).status, 400);
}

TEST(abuse, requests_that_end_early_are_refused) {
    const http_server server;
    for (const std::string& text : {std::string("GET /v2 HT"), get, post + "Content-Length: 100\r\n\r\n{}",
                                    post + "Transfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
        raw_client client = server.client();
        client.send(text);
        client.end_of_input();
        EXPECT_EQ(client.receive().status, 400) << text;
        EXPECT_TRUE(client.is_closed());
    }
}

TEST(abuse, a_half_closed_connection_gets_its_answer) {
    const http_server server;
    raw_client client = server.client();
    client.send(infer_request(1));
    client.end_of_input();
    EXPECT_EQ(client.receive().status, 200);
    EXPECT_TRUE(client.is_closed());
}

TEST(abuse, slow_headers_are_timed_out) {
    const http_server server({.header_time = 200ms});
    raw_client client = server.client();
    client.send("GET /v2 HTTP/1.1\r\n");
    const auto begin = std::chrono::steady_clock::now();
    // Each byte would be progress; the whole header has one limit.
    std::jthread drips([&] {
        for (int i = 0; i < 100 && client.send("X"); ++i) std::this_thread::sleep_for(20ms);
    });
    EXPECT_EQ(client.receive().status, 408);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(abuse, slow_bodies_are_timed_out) {
    const http_server server({.body_time = 200ms});
    raw_client client = server.client();
    client.send(post + "Content-Length: 1000\r\n\r\n{");
    EXPECT_EQ(client.receive().status, 408);
    EXPECT_TRUE(client.is_closed());
}

TEST(abuse, silent_connections_are_closed) {
    const http_server server({.idle_time = 500ms});
    raw_client silent = server.client(), after = server.client();
    EXPECT_EQ(after.ask(infer_request(1)).status, 200);
    EXPECT_TRUE(silent.is_closed());
    EXPECT_TRUE(after.is_closed());
}

TEST(abuse, clients_that_do_not_read_are_closed) {
    const http_server server({.write_time = 200ms});
    raw_client client = server.client();
    const std::string head = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1000000,2],)"
                             R"("parameters":{"binary_data_size":8000000}}],"parameters":{"binary_data_output":true}})";
    const std::string request =
        post_request("/v2/models/m/infer", head + std::string(8'000'000, '\0'),
                     "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
    int sent = 0;
    while (client.send(request)) ASSERT_LT(++sent, 100) << "the server reads on, though its answers are not read";
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

// A request with this many rows of two numbers, and an answer as long, both binary.
std::string long_request(std::size_t rows) {
    const std::string size = std::to_string(8 * rows);
    const std::string head = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[)" + std::to_string(rows) +
                             R"(,2],"parameters":{"binary_data_size":)" + size +
                             R"(}}],"parameters":{"binary_data_output":true}})";
    return post_request("/v2/models/m/infer", head + std::string(8 * rows, '\0'),
                        "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
}

unsigned short port_of(int socket, int (*name)(int, sockaddr*, socklen_t*)) {
    sockaddr_in its{};
    socklen_t bytes = sizeof(its);
    return name(socket, reinterpret_cast<sockaddr*>(&its), &bytes) == 0 ? ntohs(its.sin_port) : 0;
}

// The server's socket takes as little as one across a network: progress is in small steps.
void make_small(const raw_client& client, const http_server& server) {
    const int memory = 32 << 10;
    ::setsockopt(client.socket(), SOL_SOCKET, SO_RCVBUF, &memory, sizeof(memory));
    for (int each = 0; each < 1024; ++each) {
        if (port_of(each, ::getsockname) == server.front->port() &&
            port_of(each, ::getpeername) == port_of(client.socket(), ::getsockname))
            ::setsockopt(each, SOL_SOCKET, SO_SNDBUF, &memory, sizeof(memory));
    }
}

// Though there is progress.
TEST(abuse, clients_that_read_slowly_are_closed) {
    const http_server server({.write_time = 200ms});
    raw_client client = server.client();
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);  // the server has accepted it
    make_small(client, server);
    client.send(long_request(512 << 10));  // 4 MiB: a second for the answer
    std::vector<char> text(32 << 10);
    std::size_t bytes = 0;
    while (bytes < 4U << 20) {
        const ssize_t got = ::recv(client.socket(), text.data(), text.size(), 0);
        if (got <= 0) break;
        bytes += static_cast<std::size_t>(got);
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_LT(bytes, 4U << 20);
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

// While it is written, the answer counts, and not what it answers.
TEST(abuse, a_client_that_does_not_read_holds_only_its_answer) {
    const auto budget = std::make_shared<request_budget>(256U << 20);
    const http_server server({.budget = budget});
    raw_client client = server.client();
    const int small = 64 << 10;
    ::setsockopt(client.socket(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    client.send(long_request(2 << 20));
    char first = 0;
    ASSERT_EQ(::recv(client.socket(), &first, 1, MSG_PEEK), 1);
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (budget->bytes() < (16U << 20) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    std::this_thread::sleep_for(50ms);
    EXPECT_GE(budget->bytes(), 16U << 20);
    EXPECT_LT(budget->bytes(), 20U << 20);
}

// Takes texts, and gives their codes.
class model_of_texts final : public testing::fake_model {
public:
    const std::vector<nn::value_info>& inputs() const noexcept override { return inputs_; }
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override { return inputs; }

private:
    std::vector<nn::value_info> inputs_{{"x", io::dtype::i64, fake_model::inputs().front().shape, true}};
    std::vector<nn::value_info> outputs_{{"y", io::dtype::i64, fake_model::inputs().front().shape}};
};

// Answered and refused: numbers that were JSON, and codes of texts that were not.
TEST(abuse, an_idle_connection_keeps_no_memory_of_its_last_request) {
    const auto budget = std::make_shared<request_budget>(64U << 20);
    const http_server numbers({.budget = budget}), texts({.budget = budget}, "{}", std::make_shared<model_of_texts>());
    raw_client client = numbers.client(), other = texts.client();
    std::string zeros = "0";
    for (int i = 1; i < 10'000; ++i) zeros += ",0";
    const std::string body = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[5000,2],"data":[)" + zeros + "]";
    const std::string text = R"({"inputs":[{"name":"x","datatype":"BYTES","shape":[5000,2],)"
                             R"("parameters":{"binary_data_size":40000}}])";
    for (const auto& [end, status] : {std::pair("}", 200), std::pair(R"(,"unknown":1})", 400)}) {
        EXPECT_EQ(client.ask(post_request("/v2/models/m/infer", body + "}]" + end)).status, status);
        testing::expect_given_back(*budget);
        EXPECT_EQ(other
                      .ask(post_request("/v2/models/m/infer", text + end + std::string(40'000, '\0'),
                                        "Inference-Header-Content-Length: " +
                                            std::to_string(text.size() + std::string(end).size()) + "\r\n"))
                      .status,
                  status);
        testing::expect_given_back(*budget);
    }
}

// They have begun a request, so they are not idle.
std::vector<raw_client> busy_clients(const http_server& server, int count) {
    std::vector<raw_client> all;
    for (int i = 0; i < count; ++i) {
        all.push_back(server.client());
        EXPECT_EQ(all.back().ask(get_request("/v2")).status, 200);
        all.back().send("GET /v2 HTTP/1.1\r\n");
    }
    std::this_thread::sleep_for(50ms);  // they have arrived
    return all;
}

TEST(abuse, more_connections_than_allowed_are_refused_and_health_has_a_reserve) {
    const http_server server({.connections = 2, .health_connections = 1});
    {
        std::vector<raw_client> busy = busy_clients(server, 2);
        EXPECT_EQ(server.ask(get_request("/v2/health/live")).status, 200);
        raw_client third = server.client();
        EXPECT_EQ(third.ask(infer_request(1)).status, 503);
        third.end_of_input();
        EXPECT_TRUE(third.is_closed());
        // More than the reserve.
        raw_client holds = server.client();
        holds.send("GET ");
        std::this_thread::sleep_for(50ms);
        raw_client fourth = server.client();
        EXPECT_EQ(fourth.receive().status, 503);
        EXPECT_EQ(busy.front().ask("Host: localhost\r\n\r\n").status, 200);
    }
    // When they have left, there is room again.
    while (server.ask(get_request("/v2")).status != 200) std::this_thread::sleep_for(5ms);
}

TEST(abuse, clients_that_say_nothing_shut_nobody_out) {
    const http_server server({.connections = 8});
    std::vector<raw_client> idle;
    for (int i = 0; i < 20; ++i) idle.push_back(server.client());
    for (int i = 0; i < 20; ++i) EXPECT_EQ(server.ask(infer_request(1)).status, 200);
    EXPECT_TRUE(idle.front().is_closed());
}

TEST(abuse, the_connection_that_has_been_idle_longest_makes_room) {
    const http_server server({.connections = 3});
    raw_client old = server.client(), used = server.client(), fresh = server.client();
    for (raw_client* const each : {&old, &used, &fresh}) EXPECT_EQ(each->ask(infer_request(1)).status, 200);
    EXPECT_EQ(used.ask(infer_request(1)).status, 200);
    raw_client one_more = server.client();
    EXPECT_EQ(one_more.ask(infer_request(1)).status, 200);
    EXPECT_TRUE(old.is_closed());
    EXPECT_EQ(used.ask(infer_request(1)).status, 200);
    EXPECT_EQ(fresh.ask(infer_request(1)).status, 200);
}

TEST(abuse, who_repeats_a_refused_request_at_once_is_not_read_until_its_time) {
    const http_server server({}, R"({"queue": 1, "caller_thread_us": 0})");
    const testing::held gate(*server.fake);
    raw_client computed = server.client(), waits = server.client(), repeats = server.client(), other = server.client();
    computed.send(infer_request(1));
    server.fake->wait_until_running();
    waits.send(infer_request(1));
    while (other.ask(get_request("/metrics"))
               .body.find("sluice_inference_waiting_requests{model=\"m\",version=\"1\"} 1\n") == std::string::npos)
        std::this_thread::yield();
    // The first one may be repeated at once: who waits as the answer says is never held.
    EXPECT_EQ(repeats.ask(infer_request(1)).status, 429);
    EXPECT_EQ(repeats.ask(infer_request(1)).field("Retry-After"), "1");
    const auto begin = std::chrono::steady_clock::now();
    repeats.send(get_request("/v2/health/live"));
    EXPECT_EQ(other.ask(get_request("/v2/health/live")).status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
    EXPECT_EQ(repeats.receive().status, 200);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 900ms);
    // Each time longer.
    EXPECT_EQ(repeats.ask(infer_request(1)).field("Retry-After"), "1");
    EXPECT_EQ(repeats.ask(infer_request(1)).field("Retry-After"), "1");
    EXPECT_EQ(repeats.ask(infer_request(1)).field("Retry-After"), "2");
}

// It waits for the time that its refusal named, and has a request.
TEST(abuse, an_idle_connection_with_a_request_does_not_make_room) {
    const http_server server({.connections = 4, .health_connections = 0},
                             R"({"queue": 1, "caller_thread_us": 0, "max_batch": 1})");
    raw_client computed = server.client(), waits = server.client(), repeats = server.client();
    {
        const testing::held gate(*server.fake);
        computed.send(infer_request(1));
        server.fake->wait_until_running();
        waits.send(infer_request(1));
        while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
        for (int i = 0; i < 2; ++i) EXPECT_EQ(repeats.ask(infer_request(1)).status, 429);
        repeats.send(get_request("/v2/health/live"));
        raw_client other = server.client();
        EXPECT_EQ(other.ask(get_request("/v2/health/live")).status, 200);
        raw_client room = server.client();  // that of the one that has been idle for less time
        EXPECT_EQ(room.ask(get_request("/v2/health/live")).status, 200);
        EXPECT_TRUE(other.is_closed());
        EXPECT_EQ(repeats.receive().status, 200);
    }
    EXPECT_EQ(computed.receive().status, 200);
    EXPECT_EQ(waits.receive().status, 200);
}

// What passes by itself names a time; a device that has failed does not come back.
TEST(abuse, a_model_that_is_loaded_names_a_time_and_one_that_is_lost_none) {
    const http_server server({}, R"({"caller_thread_us": 0})");
    EXPECT_EQ(server.ask(infer_request(testing::deadly_number)).status, 500);
    const http_answer lost = server.ask(infer_request(1));
    EXPECT_EQ(lost.status, 503);
    EXPECT_EQ(lost.field("Retry-After"), "");
    server.models->unload("m");
    std::jthread loads;
    const testing::held gate(*server.fake);  // also of its trial
    loads = std::jthread([&] { server.models->load("m"); });
    while (server.models->known().empty()) std::this_thread::yield();
    const http_answer loading = server.ask(infer_request(1));
    EXPECT_EQ(loading.status, 503);
    EXPECT_EQ(loading.field("Retry-After"), "1");
}

std::size_t request_bytes(raw_client& client) {
    const std::string text = client.ask(get_request("/metrics")).body, name = "\nsluice_http_request_bytes ";
    const std::size_t at = text.find(name);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size()));
}

TEST(abuse, bodies_of_all_connections_have_one_limit) {
    const http_server server({.all_bodies_bytes = 1'000'000});
    raw_client large = server.client(), other = server.client();
    large.send(post + "Content-Length: 900000\r\n\r\n" + std::string(880'000, ' '));
    while (request_bytes(other) < 880'000) std::this_thread::yield();
    const http_answer refused = other.ask(post + "Content-Length: 200000\r\n\r\n");
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.field("Retry-After"), "1");
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);  // small ones have room
    large.reset();
    raw_client after = server.client();
    while (request_bytes(after) != 0) std::this_thread::yield();
}

TEST(abuse, lengths_that_are_only_declared_take_no_memory_from_others) {
    const http_server server({.all_bodies_bytes = 1'000'000});
    std::vector<raw_client> declare;
    for (int i = 0; i < 16; ++i) {
        declare.push_back(server.client());
        declare.back().send(post + "Content-Length: 1000000\r\n\r\n{");
    }
    raw_client other = server.client();
    EXPECT_LT(request_bytes(other), 1000U);
    const std::string body(500'000, ' ');
    EXPECT_EQ(other.ask(post + "Content-Length: 500000\r\n\r\n" + body).status, 400);  // read, and no JSON
}

// Beast waits for the end of such a line, however long it is.
TEST(abuse, lines_of_chunks_and_trailers_are_bounded) {
    const std::string begin = post + "Transfer-Encoding: chunked\r\n\r\n";
    for (const std::string& text :
         {std::string("5;"), std::string("5;a=\""), std::string("0"), std::string("5\r\nhello\r\n0\r\nA: ")}) {
        const http_server server;
        raw_client client = server.client();
        client.send(begin + text);
        const std::string more(64 << 10, text == "0" ? '0' : 'a');
        int sent = 0;
        while (sent < 160 && client.send(more)) ++sent;  // 10 MiB: more than the sockets' buffers
        const http_answer got = client.receive();
        EXPECT_EQ(got.status, 431) << text;
        EXPECT_THAT(got.body, HasSubstr("chunks"));
        EXPECT_EQ(server.ask(infer_request(1)).status, 200);
    }
}

// What waits for its end counts for no budget.
TEST(abuse, a_long_body_lets_no_line_of_a_chunk_grow) {
    const std::string begin =
        post + "Transfer-Encoding: chunked\r\n\r\n100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
    for (const char* const text : {"5;", "0\r\nA: "}) {
        const http_server server;
        raw_client client = server.client();
        client.send(begin + text + std::string(100 << 10, 'a'));
        EXPECT_EQ(client.receive().status, 431) << text;
    }
}

// Each is whole, so nothing waits for its end.
TEST(abuse, many_long_extensions_of_chunks_are_refused) {
    const http_server server;
    raw_client client = server.client();
    client.send(post + "Transfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "1;" + std::string(8000, 'a') + "\r\n \r\n";
    for (int i = 0; i < 10 && client.send(chunk); ++i) {
    }
    EXPECT_EQ(client.receive().status, 431);
}

TEST(abuse, short_chunks_and_short_trailers_are_accepted) {
    const http_server server;
    raw_client client = server.client();
    const std::string request = infer_request(1), body = request.substr(request.find("\r\n\r\n") + 4);
    std::string text = post + "Transfer-Encoding: chunked\r\n\r\n";
    for (const char each : body) text += std::string("1;a=b\r\n") + each + "\r\n";
    EXPECT_EQ(client.ask(text + "0\r\nX-Sum: 1\r\n\r\n").status, 200);
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
}

TEST(abuse, other_names_than_those_of_this_machine_are_misdirected) {
    const http_server server({.host_names = {"Inference.example.org"}});
    const auto ask = [&](const std::string& host, const std::string& path = "/v2/health/live") {
        return server.ask("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char* const each : {"localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:1", "127.9.9.9",
                                   "[::1]:8000", "[::1]", "inference.example.org:8000"})
        EXPECT_EQ(ask(each).status, 200) << each;
    for (const char* const each :
         {"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1",
          "0.0.0.0", "[::2]", "[::1", "localhost:x", "evil@localhost", "example.org"}) {
        EXPECT_EQ(ask(each).status, 421) << each;
        EXPECT_EQ(ask(each, "/metrics").status, 421) << each;
    }
    EXPECT_THAT(ask("evil.example").body, HasSubstr("--host-name"));
    // The browser lets a page of the site that its name is of do all that it could do with its own server.
    const std::string page = "Host: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 2\r\n\r\n{}";
    EXPECT_EQ(server.ask("POST /v2/repository/models/m/unload HTTP/1.1\r\n" + page).status, 421);
    EXPECT_EQ(server.ask("GET /v2/health/live HTTP/1.0\r\n\r\n").status, 200);
    EXPECT_THROW(http_server({.host_names = {"http://x"}}), error);
}

TEST(abuse, chunked_bodies_have_the_same_limits) {
    const http_server server({.body_bytes = 1000});
    raw_client client = server.client();
    client.send(post + "Transfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "100\r\n" + std::string(256, ' ') + "\r\n";
    for (int i = 0; i < 10 && client.send(chunk); ++i) {
    }
    EXPECT_EQ(client.receive().status, 413);
}

// The clients of a proxy come from one address; each of them has the limit of an address.
TEST(abuse, a_client_behind_a_trusted_proxy_has_the_limit_of_an_address) {
    const auto from = [](const std::string& client, std::string request) {
        return request.insert(request.find("\r\n") + 2, "X-Forwarded-For: " + client + "\r\n");
    };
    for (const bool is_trusted : {true, false}) {
        http_options options{.connections_of_client = 1};
        if (is_trusted) options.trusted_proxies = {"127.0.0.1"};
        const http_server server(options, R"({"caller_thread_us": 0})");
        raw_client first = server.client(), second = server.client(), other = server.client();
        {
            const testing::held model(*server.fake);
            first.send(from("203.0.113.7", infer_request(1)));
            server.fake->wait_until_running();
            const http_answer health = second.ask(from("203.0.113.7", get_request("/v2/health/live")));
            EXPECT_EQ(health.status, 200);
            const http_answer refused = second.ask(from("198.51.100.1, 203.0.113.7", get_request("/v2")));
            EXPECT_EQ(refused.status, is_trusted ? 429 : 200) << refused.body;
            EXPECT_EQ(other.ask(from("203.0.113.8", get_request("/v2"))).status, 200);
        }
        EXPECT_EQ(first.receive().status, 200);
        EXPECT_EQ(second.ask(from("203.0.113.7", get_request("/v2"))).status, 200);  // its request is over
    }
}

}  // namespace
}  // namespace sluice::serve::http_abuse_tests
