// SPDX-License-Identifier: Apache-2.0
// The client: against the server of the project, and against servers that break the protocol.
#include "serve/support/known_clients.hpp"
#include "sluice/serve/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/use_future.hpp>
#include <future>
#include <vector>

#include "serve/support/http_server.hpp"
#include "serve/support/scripted_server.hpp"
#include "sluice/asio.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::client_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::http_server;
using testing::scripted_server;

infer_request row_of(float value, const std::string& model = "m") {
    infer_request made{.model = model};
    made.inputs.push_back({"x", nn::any_tensor(std::vector<float>{value, value + 1}, {1, 2})});
    return made;
}

std::string address_of(const http_server& server) { return "127.0.0.1:" + std::to_string(server.front->port()); }

infer_answer ask(client& asks, infer_request request) { return sync_wait(asks.infer(std::move(request))); }

refusal refusal_for(client& asks, infer_request request) {
    try {
        static_cast<void>(ask(asks, std::move(request)));
    } catch (const refusal& why) {
        return why;
    }
    throw std::runtime_error("it is answered");
}

error error_for(client& asks, infer_request request) {
    try {
        static_cast<void>(ask(asks, std::move(request)));
    } catch (const error& why) {
        return why;
    }
    throw std::runtime_error("it is answered");
}

errc code_of(const error& failure) { return static_cast<errc>(failure.code().value()); }

TEST(client, gets_names_shapes_and_values) {
    const http_server server;
    client asks(address_of(server));
    infer_request request = row_of(4);
    request.id = "a \"quoted\" id";
    request.outputs = {"y"};
    const infer_answer got = ask(asks, std::move(request));
    EXPECT_EQ(got.model, "m");
    EXPECT_EQ(got.version, "1");
    EXPECT_EQ(got.id, "a \"quoted\" id");
    EXPECT_THAT(got.at("y").shape(), ElementsAre(1, 2));
    EXPECT_THAT(got.at("y").values<float>(), ElementsAre(8, 10));
    EXPECT_THROW(static_cast<void>(got.at("z")), error);
}

task<float> sum_of(client& asks, int requests) {
    float sum = 0;
    for (int i = 0; i < requests; ++i) {
        auto request = asks.infer(row_of(static_cast<float>(i + 20)));
        const infer_answer got = co_await std::move(request);
        sum += got.at("y").values<float>()[0];
    }
    co_return sum;
}

TEST(client, tasks_share_a_bounded_number_of_connections) {
    const http_server server;
    client asks(address_of(server), {.connections = 3});
    std::vector<std::jthread> threads;
    for (int i = 0; i < 10; ++i)
        threads.emplace_back([&] { EXPECT_EQ(sync_wait(sum_of(asks, 50)), 2 * (50 * 20 + 49 * 25)); });
    threads.clear();
    const std::string metrics = server.ask(testing::get_request("/metrics")).body;
    const std::string name = "\nsluice_http_connections ";
    const std::size_t at = metrics.find(name);
    ASSERT_NE(at, std::string::npos);
    EXPECT_LE(std::stoi(metrics.substr(at + name.size())), 3 + 1);  // and the one that asks
}

TEST(client, works_under_asio) {
    const http_server server;
    client asks(address_of(server));
    std::future<infer_answer> later = async_wait(asks.infer(row_of(1)), boost::asio::use_future);
    EXPECT_THAT(later.get().at("y").values<float>(), ElementsAre(2, 4));
}

TEST(client, sends_long_tensors) {
    const http_server server;
    client asks(address_of(server));
    infer_request request{.model = "m"};
    request.inputs.push_back({"x", nn::any_tensor(std::vector<float>(6'000'000, 3), {3'000'000, 2})});
    const infer_answer got = ask(asks, std::move(request));
    EXPECT_EQ(got.at("y").elements(), 6'000'000U);
    EXPECT_EQ(got.at("y").values<float>().back(), 6);
}

TEST(client, refusals_have_the_servers_text_and_kind) {
    const http_server server;
    client asks(address_of(server));
    EXPECT_EQ(refusal_for(asks, row_of(1, "absent")).kind(), refusal_kind::not_found);
    EXPECT_THAT(refusal_for(asks, row_of(1, "absent")).why(), HasSubstr("absent"));
    infer_request wrong = row_of(1);
    wrong.inputs[0].name = "no such input";
    EXPECT_EQ(refusal_for(asks, wrong).kind(), refusal_kind::bad_request);
    EXPECT_THAT(refusal_for(asks, wrong).why(), HasSubstr("no such input"));
    EXPECT_EQ(refusal_for(asks, row_of(testing::bad_number)).kind(), refusal_kind::bad_request);
    EXPECT_THAT(ask(asks, row_of(1)).at("y").values<float>(), ElementsAre(2, 4));
}

TEST(client, a_full_queue_says_how_many_wait) {
    const auto model = std::make_shared<testing::fake_model>();
    const http_server server({}, R"({"queue": 1, "max_batch": 1, "caller_thread_us": 0})", model);
    client asks(address_of(server));
    std::vector<std::future<infer_answer>> held;
    {
        const testing::held hold(*model);
        held.push_back(async_wait(asks.infer(row_of(1)), boost::asio::use_future));
        model->wait_until_running();
        held.push_back(async_wait(asks.infer(row_of(2)), boost::asio::use_future));
        while (server.ask(testing::get_request("/metrics"))
                   .body.find("sluice_inference_waiting_requests{model=\"m\","
                              "version=\"1\"} 1") == std::string::npos)
            std::this_thread::sleep_for(1ms);
        const refusal full = refusal_for(asks, row_of(3));
        EXPECT_EQ(full.kind(), refusal_kind::queue_full);
        EXPECT_EQ(full.waiting(), 1U);
    }
    for (auto& each : held) EXPECT_EQ(each.get().model, "m");
}

TEST(client, shows_its_token) {
    http_options options;
    options.clients = testing::client_with({"a-token-that-is-long"});
    const http_server server(options);
    client without(address_of(server));
    EXPECT_EQ(refusal_for(without, row_of(1)).kind(), refusal_kind::forbidden);
    client with(address_of(server), {.token = "a-token-that-is-long"});
    EXPECT_EQ(ask(with, row_of(1)).model, "m");
    EXPECT_THROW(client(address_of(server), {.token = "two\r\nlines"}), error);
}

TEST(client, deadlines_end_requests_that_wait_for_an_answer_or_a_connection) {
    const auto model = std::make_shared<testing::fake_model>();
    const http_server server({}, R"({"caller_thread_us": 0})", model);
    client asks(address_of(server), {.connections = 1});
    const testing::held hold(*model);
    infer_request late = row_of(1);
    late.deadline = 300ms;
    auto first = async_wait(asks.infer(row_of(2)), boost::asio::use_future);
    model->wait_until_running();
    EXPECT_EQ(code_of(error_for(asks, late)), errc::timed_out);  // no connection is free
    client other(address_of(server));
    EXPECT_ANY_THROW(static_cast<void>(ask(other, late)));  // late for the server or for the client
    model->open();
    EXPECT_EQ(first.get().model, "m");
    EXPECT_EQ(ask(asks, row_of(1)).model, "m");
}

TEST(client, deadlines_that_are_none_are_refused) {
    const http_server server;
    client asks(address_of(server));
    for (const std::chrono::milliseconds deadline :
         {-1ms, 0ms, std::chrono::milliseconds(3'600'001), std::chrono::milliseconds::max()}) {
        infer_request wrong = row_of(1);
        wrong.deadline = deadline;
        EXPECT_EQ(code_of(error_for(asks, wrong)), errc::invalid_argument);
    }
    infer_request longest = row_of(1);
    longest.deadline = std::chrono::hours(1);
    EXPECT_EQ(ask(asks, longest).model, "m");
}

TEST(client, a_connection_that_the_server_has_closed_is_opened_again) {
    http_options options;
    options.idle_time = 400ms;  // also of a new connection, on a busy machine
    const http_server server(options);
    client asks(address_of(server));
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ask(asks, row_of(1)).model, "m");
        std::this_thread::sleep_for(700ms);
    }
}

const std::string ready = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

TEST(client, a_request_is_repeated_once_and_only_where_the_connection_was_used_before) {
    scripted_server server([](int socket, int connection) {
        scripted_server::read(socket);
        if (connection == 0) {
            scripted_server::write(socket, ready);
            scripted_server::read(socket);  // and the next request gets nothing
        }
    });
    client asks(server.address(), {.connections = 1});
    EXPECT_TRUE(sync_wait(asks.is_ready()));
    const error failure = error_for(asks, row_of(1));
    EXPECT_EQ(code_of(failure), errc::io_failed);
    EXPECT_THAT(failure.what(), HasSubstr(server.address()));
    EXPECT_EQ(server.connections(), 2);  // one repetition
    EXPECT_EQ(code_of(error_for(asks, row_of(1))), errc::io_failed);
    EXPECT_EQ(server.connections(), 3);  // none: the connection was new
}

TEST(client, a_request_of_which_a_part_is_answered_is_not_repeated) {
    scripted_server server([](int socket, int connection) {
        scripted_server::read(socket);
        scripted_server::write(socket, connection == 0 ? ready : "");
        scripted_server::read(socket);
        scripted_server::write(socket, "HTTP/1.1 200 OK\r\nContent-Le");
    });
    client asks(server.address(), {.connections = 1});
    EXPECT_TRUE(sync_wait(asks.is_ready()));
    EXPECT_EQ(code_of(error_for(asks, row_of(1))), errc::io_failed);
    EXPECT_EQ(server.connections(), 1);
}

std::string reply(const std::string& json, const std::string& data, const std::string& fields = {}) {
    return "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n" + fields +
           "Content-Length: " + std::to_string(json.size() + data.size()) + "\r\n\r\n" + json + data;
}
std::string output_of(const std::string& shape, const std::string& size, const std::string& type = "FP32") {
    return R"({"outputs":[{"name":"y","datatype":")" + type + R"(","shape":)" + shape +
           R"(,"parameters":{"binary_data_size":)" + size + "}}]}";
}

TEST(client, answers_that_break_the_protocol_are_refused) {
    const std::vector<std::string> answers{
        "HTTP/9.9 what\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",    // no binary data
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",  // ends early
        "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}",
        reply("{}", ""),
        reply("[1", ""),
        reply(output_of("[1,2]", "8"), "1234"),       // too few bytes
        reply(output_of("[1,2]", "8"), "123456789"),  // too many
        reply(output_of("[1,3]", "8"), "12345678"),
        reply(output_of("[-1]", "8"), "12345678"),
        reply(output_of("[4611686018427387905]", "4"), "1234"),  // 2^62 + 1 elements of 4 bytes are 4 bytes
        reply(output_of("[1]", "4", "BYTES"), "1234"),
        reply(output_of("\"x\"", "4"), "1234"),
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
    };
    scripted_server server([&](int socket, int connection) {
        scripted_server::read(socket);
        scripted_server::write(socket, answers.at(static_cast<std::size_t>(connection)));
    });
    for (const std::string& each : answers) {
        client asks(server.address());
        EXPECT_EQ(code_of(error_for(asks, row_of(1))), errc::io_failed) << each;
    }
}

TEST(client, passes_over_continue_and_reads_answers_in_pieces) {
    scripted_server server([](int socket, int) {
        scripted_server::read(socket);
        const float two[]{2, 4};
        const std::string data(reinterpret_cast<const char*>(two), sizeof(two));
        for (const char each : "HTTP/1.1 100 Continue\r\n\r\n" + reply(output_of("[1,2]", "8"), data))
            scripted_server::write(socket, std::string(1, each));
        scripted_server::read(socket);
    });
    {
        client asks(server.address());
        EXPECT_THAT(ask(asks, row_of(1)).at("y").values<float>(), ElementsAre(2, 4));
    }
}

TEST(client, its_end_ends_requests) {
    const auto model = std::make_shared<testing::fake_model>();
    const http_server server({}, R"({"caller_thread_us": 0})", model);
    const testing::held hold(*model);
    auto asks = std::make_unique<client>(address_of(server));
    auto first = async_wait(asks->infer(row_of(1)), boost::asio::use_future);
    model->wait_until_running();
    asks.reset();
    try {
        static_cast<void>(first.get());
        FAIL() << "it is answered";
    } catch (const error& why) {
        EXPECT_EQ(code_of(why), errc::canceled);
    }
}

task<> ask_and_end(std::unique_ptr<client> asks) {
    auto request = asks->infer(row_of(1));
    co_await std::move(request);
    asks.reset();  // on its own thread
}

TEST(client, may_end_on_its_own_thread) {
    const http_server server;
    sync_wait(ask_and_end(std::make_unique<client>(address_of(server))));
    EXPECT_EQ(server.ask(testing::infer_request(1)).status, 200);
}

TEST(client, says_where_nobody_listens) {
    std::string address;
    {
        const http_server server;
        address = address_of(server);
    }
    client asks(address);
    EXPECT_FALSE(sync_wait(asks.is_ready()));
    const error failure = error_for(asks, row_of(1));
    EXPECT_EQ(code_of(failure), errc::io_failed);
    EXPECT_THAT(failure.what(), HasSubstr("cannot connect to " + address));
}

TEST(client, wrong_servers_and_requests_are_refused) {
    for (const std::string text : {"", "host", "host:", ":8000", "host:0", "host:70000", "ftp://host:1", "ho st:1",
                                   "http://host:1/path", "a\r\nb:1", "::1:8000", "host:1?"})
        EXPECT_THROW(client{text}, error) << text;
    for (const std::string text : {"host:1", "http://host:1", "http://host:1/", "[::1]:8000"}) client{text};
    EXPECT_THROW(client("host:1", {.connections = 0}), error);
    client asks("127.0.0.1:1");
    for (const std::string model : {"", "..", "a/b", "a b", "a\r\nX: y"})
        EXPECT_EQ(code_of(error_for(asks, row_of(1, model))), errc::invalid_argument) << model;
    infer_request empty{.model = "m"};
    empty.inputs.push_back({"x", {}});
    EXPECT_EQ(code_of(error_for(asks, empty)), errc::invalid_argument);
}

}  // namespace
}  // namespace sluice::serve::client_tests
