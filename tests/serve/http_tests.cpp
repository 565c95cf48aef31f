// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::http_tests {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::fake_model;
using testing::get_request;
using ::testing::HasSubstr;
using testing::held;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::post_request;
using testing::raw_client;

TEST(http, says_what_it_is_and_that_it_is_ready) {
    const http_server server({.version = "1.2.3"});
    raw_client client = server.client();
    const json about = json::parse(client.ask(get_request("/v2")).body);
    EXPECT_EQ(about["name"], "sluice");
    EXPECT_EQ(about["version"], "1.2.3");
    EXPECT_EQ(
        about["extensions"],
        json::parse(R"(["binary_tensor_data","model_configuration","model_repository","sequence","statistics"])"));
    for (const char* const path :
         {"/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready", "/v2/",
          "http://test/v2", "https://test/v2", "/v2?a=b"}) {
        EXPECT_EQ(client.ask(get_request(path)).status, 200) << path;
    }
    // The client of KServe reads these bodies.
    EXPECT_EQ(client.ask(get_request("/v2/health/live")).body, R"({"live":true})");
    EXPECT_EQ(client.ask(get_request("/v2/health/ready")).body, R"({"ready":true})");
    EXPECT_EQ(client.ask(get_request("/v2/models/m/ready")).body, R"({"name":"m","ready":true})");
}

// perf_analyzer asks for it first.
TEST(http, says_the_configuration_of_a_model_as_triton_does) {
    const http_server joined({}, R"({"max_batch": 8, "max_delay_us": 50, "instances": 2, "priority_levels": 3,
        "default_priority": 2, "priority_queue_policy": {"3": {"queue": 5, "timeout_us": 9, "timeout_action": "delay",
                                                               "allow_timeout_override": false}}})");
    const json its = json::parse(joined.ask(get_request("/v2/models/m/config")).body);
    EXPECT_EQ(its["max_batch_size"], 8);
    EXPECT_EQ(its["input"], json::parse(R"([{"name":"x","data_type":"TYPE_FP32","dims":[2]}])"));
    EXPECT_EQ(its["output"], json::parse(R"([{"name":"y","data_type":"TYPE_FP32","dims":[2]}])"));
    EXPECT_EQ(its["dynamic_batching"]["max_queue_delay_microseconds"], 50);
    EXPECT_EQ(its["dynamic_batching"]["default_queue_policy"]["timeout_action"], "REJECT");
    EXPECT_EQ(its["dynamic_batching"]["priority_queue_policy"],
              json::parse(R"({"3":{"timeout_action":"DELAY","default_timeout_microseconds":9,
                             "allow_timeout_override":false,"max_queue_size":5}})"));
    EXPECT_EQ(its["version_policy"], json::parse(R"({"latest":{"num_versions":1}})"));
    EXPECT_EQ(its["instance_group"][0]["count"], 2);
    EXPECT_EQ(its["model_transaction_policy"]["decoupled"], false);
    const http_server alone({}, R"({"max_batch": 1, "versions": [1]})");
    const json one = json::parse(alone.ask(get_request("/v2/models/m/versions/1/config")).body);
    EXPECT_EQ(one["version_policy"], json::parse(R"({"specific":{"versions":[1]}})"));
    EXPECT_EQ(one["max_batch_size"], 0);
    EXPECT_EQ(one["input"][0]["dims"], json::parse("[-1,2]"));
    EXPECT_FALSE(one.contains("dynamic_batching"));
    EXPECT_EQ(alone.ask(get_request("/v2/models/other/config")).status, 404);
    EXPECT_EQ(alone.ask(post_request("/v2/models/m/config", "{}")).status, 405);
}

TEST(http, a_body_may_repeat_the_models_name_but_not_name_another_model) {
    const http_server server;
    const auto ask = [&](const std::string& name) {
        return server.ask(post_request(
            "/v2/models/m/infer",
            R"({"model_name":)" + name + R"(,"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]})"));
    };
    EXPECT_EQ(ask(R"("m")").status, 200);
    const http_answer other = ask(R"("n")");
    EXPECT_EQ(other.status, 400);
    EXPECT_THAT(other.body, HasSubstr("the body is for the model 'n', the path for 'm'"));
    EXPECT_EQ(ask("7").status, 400);
}

TEST(http, a_port_that_is_bound_refuses_connections_until_a_front_end_takes_it) {
    for (const char* const address : {"127.0.0.1", "::1"}) {
        for (const std::size_t threads : {1, 3}) {
            http_port port({.address = address, .port = 0, .threads = threads});
            const unsigned short number = port.number();
            EXPECT_NE(number, 0);
            EXPECT_THROW(raw_client{number}, std::system_error);
            http_port moved(std::move(port));
            EXPECT_EQ(moved.number(), number);
            EXPECT_EQ(port.number(), 0);  // NOLINT(bugprone-use-after-move): what is left
            const http_server server;
            const http_front front(*server.models, std::move(moved));
            EXPECT_EQ(front.port(), number);
            if (std::string_view(address) == "127.0.0.1") {
                EXPECT_EQ(raw_client(number).ask(get_request("/v2")).status, 200);
            }
            EXPECT_THROW(http_front(*server.models, std::move(port)), error);
        }
    }
    const http_server taken;
    try {
        const http_port second({.port = taken.front->port()});
        FAIL() << "bound twice";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::io_failed);
        EXPECT_THAT(refused.what(),
                    HasSubstr("cannot listen on 127.0.0.1, port " + std::to_string(taken.front->port())));
    }
}

TEST(http, describes_models) {
    const http_server server;
    const json model = json::parse(server.ask(get_request("/v2/models/m")).body);
    EXPECT_EQ(model, json::parse(R"({"name":"m","versions":["1"],"platform":"fake",
        "inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],
        "outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}],
        "properties":{"rows":"proven"}})"));
    EXPECT_EQ(json::parse(server.ask(get_request("/v2/models/m/versions/1")).body), model);
}

TEST(http, infers_json) {
    const http_server server;
    const http_answer got = server.ask(post_request(
        "/v2/models/m/infer",
        R"({"id":"a\"b","inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":[[1,2],[3,4.5]]}]})"));
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.field("Content-Type"), "application/json");
    EXPECT_EQ(json::parse(got.body), json::parse(R"({"model_name":"m","model_version":"1","id":"a\"b",
        "outputs":[{"name":"y","datatype":"FP32","shape":[2,2],"data":[2,4,6,9]}]})"));
}

TEST(http, infers_binary_data_in_and_out) {
    const http_server server;
    const std::string head = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],)"
                             R"("parameters":{"binary_data_size":8}}],)"
                             R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
    const float x[] = {1.5f, -2};
    const http_answer got = server.ask(
        post_request("/v2/models/m/versions/1/infer", head + std::string(reinterpret_cast<const char*>(x), 8),
                     "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n"));
    ASSERT_EQ(got.status, 200) << got.body;
    const std::size_t json_bytes = std::stoul(got.field("Inference-Header-Content-Length"));
    EXPECT_EQ(got.field("Content-Type"), "application/octet-stream");
    ASSERT_EQ(got.body.size(), json_bytes + 8);
    const json answer = json::parse(got.body.substr(0, json_bytes));
    EXPECT_EQ(answer["outputs"][0]["parameters"]["binary_data_size"], 8);
    EXPECT_FALSE(answer["outputs"][0].contains("data"));
    float y[2];
    std::memcpy(y, got.body.data() + json_bytes, 8);
    EXPECT_EQ(y[0], 3);
    EXPECT_EQ(y[1], -4);
}

TEST(http, numbers_that_json_cannot_say_are_refused_unless_they_are_binary) {
    const http_server server({}, "{}", std::make_shared<fake_model>(std::numeric_limits<float>::infinity()));
    const http_answer got = server.ask(infer_request(1));
    EXPECT_EQ(got.status, 400);
    EXPECT_THAT(got.body, HasSubstr("request it as binary data"));
    const http_answer binary = server.ask(
        post_request("/v2/models/m/infer", R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,1]}],)"
                                           R"("parameters":{"binary_data_output":true}})"));
    EXPECT_EQ(binary.status, 200);
}

TEST(http, wrong_requests_leave_the_connection_open) {
    const http_server server;
    raw_client client = server.client();
    EXPECT_EQ(client.ask(post_request("/v2/models/m/infer", "{}")).status, 400);
    EXPECT_EQ(client.ask(post_request("/v2/models/other/infer", "{}")).status, 404);
    EXPECT_EQ(client.ask(post_request("/v2/models/m/versions/2/infer", "{}")).status, 404);
    EXPECT_EQ(client.ask(get_request("/v2/nothing")).status, 404);
    const http_answer method = client.ask(get_request("/v2/models/m/infer"));
    EXPECT_EQ(method.status, 405);
    EXPECT_EQ(method.field("Allow"), "POST");
    EXPECT_EQ(client.ask("DELETE /v2/models/m HTTP/1.1\r\nHost: localhost\r\n\r\n").field("Allow"), "GET, HEAD");
    const http_answer wrong = client.ask(infer_request(testing::bad_number));
    EXPECT_EQ(wrong.status, 400);
    EXPECT_THAT(json::parse(wrong.body)["error"].get<std::string>(), HasSubstr("13 is out of range"));
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
}

TEST(http, failures_of_a_device_are_500_then_503_and_in_the_log) {
    http_server server;
    std::mutex mutex;
    std::string log;
    http_front front(*server.models, {.port = 0}, [&](const log_line& line) {
        const std::lock_guard lock(mutex);
        log += line.event + ": " + line.message + "\n";
    });
    raw_client client(front.port());
    EXPECT_EQ(client.ask(infer_request(testing::deadly_number)).status, 500);
    while (server.models->is_ready()) std::this_thread::yield();
    EXPECT_EQ(client.ask(infer_request(1)).status, 503);
    EXPECT_EQ(client.ask(get_request("/v2/health/ready")).status, 503);
    EXPECT_EQ(client.ask(get_request("/v2/health/live")).status, 200);
    while (true) {
        const std::lock_guard lock(mutex);
        if (!log.empty()) break;
    }
    EXPECT_THAT(log, HasSubstr("request_failed: 1 requests have failed, the last one: "));
    EXPECT_THAT(log, HasSubstr("the device is lost"));
}

TEST(http, head_has_no_body) {
    const http_server server;
    raw_client client = server.client();
    client.send("HEAD /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const http_answer got = client.receive(false);
    EXPECT_EQ(got.status, 200);
    EXPECT_NE(got.field("Content-Length"), "0");
    EXPECT_EQ(client.ask(get_request("/v2")).status, 200);
}

TEST(http, pipelined_requests_are_answered_in_their_order) {
    const http_server server;
    raw_client client = server.client();
    std::string text;
    for (int i = 0; i < 200; ++i) {
        text += infer_request(static_cast<float>(1000 + i));  // no number that fails
        text += get_request(i % 2 == 0 ? "/v2/health/live" : "/nothing");
    }
    std::jthread sends([&] { client.send(text); });
    for (int i = 0; i < 200; ++i) {
        const json got = json::parse(client.receive().body);
        EXPECT_EQ(got["outputs"][0]["data"][0], 2 * (1000 + i));
        EXPECT_EQ(client.receive().status, i % 2 == 0 ? 200 : 404);
    }
}

TEST(http, requests_arrive_in_any_pieces) {
    const http_server server;
    raw_client client = server.client();
    for (const char each : infer_request(3)) client.send(std::string_view(&each, 1));
    EXPECT_EQ(client.receive().status, 200);
    client.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string body = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]})";
    for (std::size_t i = 0; i < body.size(); i += 10) {
        const std::string part = body.substr(i, 10);
        client.send((part.size() == 10 ? "a" : std::to_string(part.size())) + "\r\n" + part + "\r\n");
    }
    // A trailer is no header: it does not say where the JSON ends.
    client.send("0\r\nInference-Header-Content-Length: 1\r\n\r\n");
    EXPECT_EQ(client.receive().status, 200);
}

TEST(http, a_client_that_asks_first_gets_continue) {
    const http_server server;
    raw_client client = server.client();
    const std::string text = infer_request(1);
    const std::size_t body = text.find("\r\n\r\n") + 4;
    client.send(text.substr(0, body - 2) + "Expect: 100-continue\r\n\r\n");
    EXPECT_EQ(client.receive().status, 100);
    client.send(text.substr(body));
    EXPECT_EQ(client.receive().status, 200);
}

// Which HTTP/1.0 does not have.
TEST(http, a_client_of_http_1_0_gets_no_continue) {
    const http_server server;
    raw_client client = server.client();
    std::string text = infer_request(1);
    text.replace(text.find("HTTP/1.1"), 8, "HTTP/1.0");
    const std::size_t body = text.find("\r\n\r\n") + 4;
    client.send(text.substr(0, body - 2) + "Expect: 100-continue\r\n\r\n");
    std::this_thread::sleep_for(50ms);  // it is read before the body comes
    client.send(text.substr(body));
    EXPECT_EQ(client.receive().status, 200);
}

// An output that JSON cannot say.
TEST(http, an_answer_that_cannot_be_written_is_a_failure) {
    const http_server server({}, R"({"caller_thread_us": 0})");
    const std::string text = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[3e38,0]}]})";
    EXPECT_EQ(server.ask(post_request("/v2/models/m/infer", text)).status, 400);
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
    server.models->find("m")->close();  // which waits for the counters
    const model_statistics its = server.models->find("m")->statistics();
    EXPECT_EQ(its.fail.count, 1U);
    EXPECT_EQ(its.success.count, 1U);
}

TEST(http, answers_longer_than_the_sockets_memory_arrive_whole) {
    const http_server server;
    const std::size_t rows = 500'000;
    std::string data(rows * 8, '\0');
    const std::string head = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[500000,2],)"
                             R"("parameters":{"binary_data_size":4000000}}]})";
    raw_client client = server.client();
    client.send(post_request("/v2/models/m/infer", head + data,
                             "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n"));
    std::this_thread::sleep_for(50ms);  // the answer fills the socket
    const http_answer got = client.receive();
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(json::parse(got.body)["outputs"][0]["data"].size(), 2 * rows);
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
}

TEST(http, a_full_queue_is_429_with_its_length) {
    const http_server server({}, R"({"queue": 1, "caller_thread_us": 0})");
    raw_client first = server.client(), second = server.client(), third = server.client();
    {
        const held gate(*server.fake);
        first.send(infer_request(1));
        server.fake->wait_until_running();
        second.send(infer_request(2));
        while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
        const http_answer refused = third.ask(infer_request(3));
        EXPECT_EQ(refused.status, 429);
        EXPECT_EQ(refused.field("Retry-After"), "1");
        EXPECT_EQ(json::parse(refused.body)["queue_length"], 1);
    }
    EXPECT_EQ(first.receive().status, 200);
    EXPECT_EQ(second.receive().status, 200);
    EXPECT_EQ(third.ask(infer_request(3)).status, 200);
}

TEST(http, a_server_that_has_answered_sleeps) {
    const http_server server({}, R"({"caller_thread_us": 0})");  // the answer comes from another thread
    raw_client client = server.client();
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
    const auto used = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };  // by all threads
    const double before = used();
    std::this_thread::sleep_for(500ms);
    EXPECT_LT(used() - before, 0.1);
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
}

// The body is no JSON: it is not looked at.
TEST(http, a_long_request_to_a_full_queue_is_refused_unread) {
    const http_server server({}, R"({"queue": 1, "caller_thread_us": 0})");
    raw_client first = server.client(), second = server.client(), third = server.client();
    const std::string unreadable = post_request("/v2/models/m/infer", std::string(20'000, '['));
    EXPECT_EQ(third.ask(unreadable).status, 400);
    {
        const held gate(*server.fake);
        first.send(infer_request(1));
        server.fake->wait_until_running();
        second.send(infer_request(2));
        while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
        EXPECT_EQ(third.ask(post_request("/v2/models/m/infer", "[")).status, 400);  // it is short
        const http_answer refused = third.ask(unreadable);
        EXPECT_EQ(refused.status, 429);
        EXPECT_EQ(json::parse(refused.body)["queue_length"], 1);
        EXPECT_EQ(server.models->find("m")->statistics().refused_full, 1U);
    }
    EXPECT_EQ(first.receive().status, 200);
    EXPECT_EQ(second.receive().status, 200);
    EXPECT_EQ(third.ask(infer_request(3)).status, 200);
}

TEST(http, late_requests_are_504) {
    const http_server server({}, R"({"max_batch": 1, "caller_thread_us": 0})");
    raw_client first = server.client(), second = server.client();
    {
        const held gate(*server.fake);
        first.send(infer_request(1));
        server.fake->wait_until_running();
        second.send(post_request("/v2/models/m/infer",
                                 R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,1]}],)"
                                 R"("parameters":{"timeout":1000}})"));
        while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
        std::this_thread::sleep_for(3ms);
    }
    EXPECT_EQ(first.receive().status, 200);
    EXPECT_EQ(second.receive().status, 504);
}

TEST(http, requests_name_their_priority) {
    const http_server server({},
                             R"({"max_batch": 1, "caller_thread_us": 0, "priority_levels": 2, "default_priority": 2})");
    const auto of = [](int priority) {
        return post_request("/v2/models/m/infer",
                            R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,1]}],)"
                            R"("parameters":{"priority":)" +
                                std::to_string(priority) + "}}");
    };
    raw_client first = server.client(), normal = server.client(), urgent = server.client();
    {
        const held gate(*server.fake);
        first.send(infer_request(1));
        server.fake->wait_until_running();
        normal.send(of(0));
        while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
        urgent.send(of(1));
        while (server.models->find("m")->statistics().waiting != 2) std::this_thread::yield();
    }
    EXPECT_EQ(urgent.receive().status, 200);
    EXPECT_EQ(normal.receive().status, 200);
    const http_answer wrong = urgent.ask(of(3));
    EXPECT_EQ(wrong.status, 400);
    EXPECT_THAT(wrong.body, HasSubstr("model 'm' has the priorities 1 to 2"));
    EXPECT_EQ(urgent.ask(of(-1)).status, 400);
    EXPECT_EQ(first.receive().status, 200);
}

TEST(http, models_are_listed_loaded_and_unloaded) {
    const http_server server;
    raw_client client = server.client();
    EXPECT_EQ(json::parse(client.ask(post_request("/v2/repository/index", "")).body),
              json::parse(R"([{"name":"m","version":"1","state":"READY","reason":""}])"));
    EXPECT_EQ(
        client.ask(post_request("/v2/repository/models/m/load", R"({"parameters":{"unload_dependents":true}})")).status,
        400);
    EXPECT_EQ(client.ask(post_request("/v2/repository/models/m/unload", R"({"parameters":{"unload_dependents":true}})"))
                  .status,
              200);
    EXPECT_EQ(client.ask(infer_request(1)).status, 404);
    EXPECT_EQ(client.ask(post_request("/v2/repository/models/m/unload", "{}")).status, 404);
    EXPECT_EQ(json::parse(client.ask(post_request("/v2/repository/index", R"({"ready":true})")).body), json::array());
    EXPECT_EQ(client.ask(post_request("/v2/repository/models/m/load", "{}")).status, 200);
    EXPECT_EQ(client.ask(infer_request(1)).status, 200);
    EXPECT_EQ(client.ask(post_request("/v2/repository/models/other/load", "{}")).status, 404);
    const http_answer config =
        client.ask(post_request("/v2/repository/models/m/load", R"({"parameters":{"config":"{}"}})"));
    EXPECT_EQ(config.status, 400);
    EXPECT_THAT(config.body, HasSubstr("'config' is not supported"));
}

TEST(http, loading_may_be_forbidden) {
    const http_server server({.repository_control = false});
    EXPECT_EQ(server.ask(post_request("/v2/repository/models/m/unload", "{}")).status, 403);
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

TEST(http, reloads_under_load_drop_no_request) {
    const http_server server;
    std::atomic<bool> stops{false};
    std::atomic<int> answered{0}, other{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back([&] {
            raw_client client = server.client();
            while (!stops) ++(client.ask(infer_request(1)).status == 200 ? answered : other);
        });
    }
    raw_client admin = server.client();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(admin.ask(post_request("/v2/repository/models/m/load", "{}")).status, 200);
    while (answered < 100) std::this_thread::yield();
    stops = true;
    for (std::thread& each : clients) each.join();
    EXPECT_EQ(other, 0);
}

TEST(http, statistics_and_metrics_count_requests) {
    const http_server server;
    raw_client client = server.client();
    client.ask(infer_request(1));
    client.ask(infer_request(testing::bad_number));
    while (server.models->find("m")->statistics().running != 0) std::this_thread::yield();
    const json one = json::parse(client.ask(get_request("/v2/models/m/stats")).body)["model_stats"][0];
    EXPECT_EQ(one["inference_count"], 1);
    EXPECT_EQ(one["execution_count"], 1);
    EXPECT_EQ(one["inference_stats"]["success"]["count"], 1);
    EXPECT_EQ(one["inference_stats"]["fail"]["count"], 1);
    EXPECT_EQ(one["batch_stats"][0]["batch_size"], 1);
    EXPECT_EQ(json::parse(client.ask(get_request("/v2/models/stats")).body)["model_stats"][0]["name"], "m");
    const http_answer metrics = client.ask(get_request("/metrics"));
    EXPECT_THAT(metrics.body, HasSubstr("sluice_http_replies_total{status=\"400\"} 1\n"));
    EXPECT_THAT(metrics.body, HasSubstr("sluice_http_connections 1\n"));
}

TEST(http, the_page_and_the_description_come_from_here_alone) {
    const http_server server;
    const http_answer page = server.ask(get_request("/"));
    EXPECT_EQ(page.status, 200);
    EXPECT_THAT(page.field("Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_EQ(page.body.find("http"), page.body.find("https"));  // neither is there
    const json openapi = json::parse(server.ask(get_request("/v2/openapi.json")).body);
    EXPECT_TRUE(openapi["paths"].contains("/v2/models/{model}/infer"));
}

TEST(http, tokens_are_needed_where_there_are_some) {
    const http_server server({.clients = testing::client_with({"first-token-of-16", "second-token-of-16"})});
    raw_client client = server.client();
    const http_answer refused = client.ask(get_request("/v2"));
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.field("WWW-Authenticate"), "Bearer");
    const auto with = [](const std::string& token) {
        return "GET /v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + token + "\r\n\r\n";
    };
    EXPECT_EQ(client.ask(with("Bearer first-token-of-16")).status, 200);
    EXPECT_EQ(client.ask(with("bearer second-token-of-16")).status, 200);
    for (const char* const wrong :
         {"Bearer first-token-of-1", "Bearer first-token-of-166", "Bearer ", "Bearer", "first-token-of-16",
          "Basic first-token-of-16", "Bearer third-token-of-16", "Bearer first-token-of-16first-token-of-16"}) {
        EXPECT_EQ(client.ask(with(wrong)).status, 401) << wrong;
    }
    EXPECT_EQ(client.ask(get_request("/metrics")).status, 401);
    for (const char* const open : {"/", "/v2/health/live", "/v2/health/ready"})
        EXPECT_EQ(client.ask(get_request(open)).status, 200) << open;
    EXPECT_EQ(server.ask(infer_request(1)).status, 401);
}

TEST(http, versions_with_shares_answer_in_turn) {
    const http_server server;
    testing::give_two_versions(server.folder / "m", R"({"shares": {"1": 3, "2": 1}})");
    server.models->load("m");
    int of_first = 0, of_second = 0;
    for (int i = 0; i < 40; ++i) {
        const json got = json::parse(server.ask(infer_request(1)).body);
        of_first += got["model_version"] == "1" ? 1 : 0;
        of_second += got["model_version"] == "2" ? 1 : 0;
    }
    EXPECT_EQ(of_first, 30);
    EXPECT_EQ(of_second, 10);
    const http_answer named = server.ask(infer_request(1, "/v2/models/m/versions/2/infer"));
    EXPECT_EQ(json::parse(named.body)["model_version"], "2");
}

TEST(http, a_new_server_takes_the_port_before_the_old_one_ends) {
    http_server old({.shares_port = true});
    const http_front fresh(*old.models, {.port = old.front->port(), .shares_port = true});
    EXPECT_EQ(fresh.port(), old.front->port());
    EXPECT_THROW(http_front(*old.models, {.port = fresh.port()}), error);
}

TEST(http, several_threads_listen_on_one_port) {
    const http_server server({.threads = 3});
    for (int i = 0; i < 30; ++i) EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

TEST(http, a_thread_that_spins_answers_and_ends) {
    for (const auto time : {1us, 200us, 1'000'000us}) {
        const http_server server({.threads = 2, .spin_time = time});
        raw_client client = server.client();
        for (int i = 0; i < 30; ++i) {
            EXPECT_EQ(client.ask(infer_request(1)).status, 200);
            if (i % 10 == 0) std::this_thread::sleep_for(2ms);  // it sleeps, or spins on
        }
        EXPECT_EQ(server.ask(infer_request(1)).status, 200);
        server.front->drain(30s);
    }
}

TEST(http, a_spin_time_out_of_range_is_refused) {
    http_server server;
    for (const auto time : {-1us, 1'000'001us}) {
        try {
            const http_front other(*server.models, {.port = 0, .spin_time = time});
            FAIL() << "it listens";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::invalid_argument);
            EXPECT_THAT(failure.what(), HasSubstr("accepted is 0 to 1000000"));
        }
    }
}

TEST(http, addresses_that_cannot_be_listened_on_are_refused) {
    http_server server;
    EXPECT_THROW(http_front(*server.models, {.address = "localhost"}), error);
    EXPECT_THROW(http_front(*server.models, {.port = server.front->port()}), error);
    EXPECT_THROW(http_front(*server.models, {.address = "203.0.113.1"}), error);
}

TEST(http, drain_answers_accepted_requests_and_refuses_new_ones) {
    http_server server({}, R"({"caller_thread_us": 0})");
    raw_client accepted = server.client(), idle = server.client();
    EXPECT_EQ(idle.ask(infer_request(1)).status, 200);
    std::jthread drains;
    std::size_t cut = 99;
    {
        const held gate(*server.fake);
        accepted.send(infer_request(2));
        server.fake->wait_until_running();
        drains = std::jthread([&] { cut = server.front->drain(30s); });
        while (!server.models->is_draining()) std::this_thread::yield();
        std::this_thread::sleep_for(20ms);
        const http_answer refused = idle.ask(infer_request(3));
        EXPECT_EQ(refused.status, 503);
        EXPECT_EQ(refused.field("Connection"), "close");
        EXPECT_EQ(refused.field("Retry-After"), "1");
    }
    const http_answer answer = accepted.receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("Connection"), "close");
    drains.join();
    EXPECT_EQ(cut, 0U);
    EXPECT_TRUE(idle.is_closed());
    EXPECT_THROW(server.client(), std::system_error);
}

TEST(http, drain_ends_at_its_limit) {
    http_server server({}, R"({"caller_thread_us": 0})");
    raw_client client = server.client();
    const held gate(*server.fake);
    client.send(infer_request(1));
    server.fake->wait_until_running();
    EXPECT_EQ(server.front->drain(50ms), 1U);
    EXPECT_TRUE(client.is_closed());
}

// By a reset, and by closing in peace.
TEST(http, requests_whose_client_has_left_are_not_computed) {
    for (const bool resets : {true, false}) {
        const http_server server({}, R"({"max_batch": 1, "caller_thread_us": 0})");
        raw_client first = server.client();
        {
            const held gate(*server.fake);
            first.send(infer_request(1));
            server.fake->wait_until_running();
            raw_client leaves = server.client();
            leaves.send(infer_request(2));
            while (server.models->find("m")->statistics().waiting != 1) std::this_thread::yield();
            if (resets)
                leaves.reset();
            else
                raw_client(std::move(leaves));
            std::this_thread::sleep_for(400ms);  // several ticks
        }
        EXPECT_EQ(first.receive().status, 200);
        while (server.models->find("m")->statistics().cancelled == 0 && server.fake->batches().size() == 1)
            std::this_thread::yield();
        EXPECT_THAT(server.fake->batches(), ::testing::ElementsAre(1)) << resets;
        EXPECT_EQ(server.models->find("m")->statistics().cancelled, 1U);
        // The thread of its connection hears of the refusal, counts it and closes; another one answers for /metrics.
        const auto limit = std::chrono::steady_clock::now() + 20s;
        std::string metrics;
        do {
            metrics = first.ask(get_request("/metrics")).body;
        } while (metrics.find("sluice_http_connections 1\n") == std::string::npos &&
                 std::chrono::steady_clock::now() < limit);
        EXPECT_THAT(metrics, HasSubstr("sluice_http_connections 1\n"));
        EXPECT_THAT(metrics, HasSubstr("result=\"cancelled\"} 1\n"));
        EXPECT_THAT(metrics, HasSubstr("sluice_http_replies_total{status=\"499\"} 1\n"));
    }
}

TEST(http, a_client_that_has_ended_its_input_waits_for_its_answer) {
    const http_server server({}, R"({"caller_thread_us": 0})");
    raw_client client = server.client();
    {
        const held gate(*server.fake);
        client.send(infer_request(1));
        client.end_of_input();
        server.fake->wait_until_running();
        EXPECT_EQ(client.receive().status, 100);  // the server asks whether the client is there
    }
    EXPECT_EQ(client.receive().status, 200);
    EXPECT_TRUE(client.is_closed());
}

TEST(http, clients_that_leave_while_their_request_is_computed_disturb_nobody) {
    http_server server({}, R"({"caller_thread_us": 0})");
    for (int i = 0; i < 5; ++i) {
        const held gate(*server.fake);
        raw_client leaves = server.client();
        leaves.send(infer_request(1));
        server.fake->wait_until_running();
        leaves.reset();
    }
    EXPECT_EQ(server.ask(infer_request(1)).status, 200);
}

}  // namespace
}  // namespace sluice::serve::http_tests
