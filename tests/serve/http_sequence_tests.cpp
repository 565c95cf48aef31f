// SPDX-License-Identifier: Apache-2.0
// Sequences over HTTP: what clients send and get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/memory_models.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::serve::http_sequence_tests {
namespace {

using json = nlohmann::json;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::memory_models;
using testing::post_request;
using testing::raw_client;
using testing::stepped_session;

class http_sequences : public ::testing::Test {
protected:
    void SetUp() override {
        if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    }
};

struct memory_server : memory_models {
    explicit memory_server(const std::string& config = "{}") : memory_models(config) {}

    http_front front{*models, {.port = 0}};
};

json body_of(const json& parameters, float x = 1, std::int64_t place = 0) {
    return {{"parameters", parameters},
            {"inputs",
             {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {1}}, {"data", {x}}},
              {{"name", "place"}, {"datatype", "INT64"}, {"shape", {1}}, {"data", {place}}}}}};
}

http_answer ask(raw_client& client, const json& body) {
    return client.ask(post_request("/v2/models/memory/infer", body.dump()));
}

void expect_refused(raw_client& client, const json& body, int status, const char* why) {
    const http_answer got = ask(client, body);
    EXPECT_EQ(got.status, status);
    EXPECT_THAT(got.body, HasSubstr(why));
}

TEST_F(http_sequences, eight_clients_get_what_sessions_of_their_own_give_while_the_model_is_loaded_again) {
    const memory_server server;
    std::atomic<bool> ends{false};
    std::thread loads([&] {
        while (!ends) server.models->load("memory");
    });
    std::vector<std::thread> clients;
    for (std::uint64_t id = 1; id <= 8; ++id) {
        clients.emplace_back([&, id] {
            raw_client client(server.front.port());
            const auto steps = stepped_session::steps(id, 60);
            for (std::size_t i = 0; i < steps.size(); ++i) {
                json parameters{{"sequence_start", i == 0}, {"sequence_end", i + 1 == steps.size()}};
                parameters["sequence_id"] = id % 2 == 0 ? json(id) : json("client " + std::to_string(id));
                const http_answer got = ask(client, body_of(parameters, steps[i].x, steps[i].place));
                ASSERT_EQ(got.status, 200) << got.body;
                const json outputs = json::parse(got.body)["outputs"];
                ASSERT_EQ(outputs.size(), 1U);
                EXPECT_EQ(outputs[0]["name"], "y");
                ASSERT_EQ(outputs[0]["data"][0].get<float>(), steps[i].y) << id << ", step " << i;
            }
        });
    }
    for (std::thread& each : clients) each.join();
    ends = true;
    loads.join();
    raw_client client(server.front.port());
    const json one_step{{"sequence_id", 9}, {"sequence_start", true}, {"sequence_end", true}};
    EXPECT_EQ(ask(client, body_of(one_step)).status, 200);  // of the latest version, which has series then
    const std::string metrics = client.ask(get_request("/metrics")).body;
    EXPECT_THAT(metrics, HasSubstr("sluice_sequences{model=\"memory\",version=\"1\"} 0\n"));
    EXPECT_THAT(metrics,
                HasSubstr("sluice_ended_sequences_total{model=\"memory\",version=\"1\",reason=\"asked\"} 9\n"));
}

TEST_F(http_sequences, the_metadata_names_the_state_and_requests_without_a_sequence_bring_it) {
    const memory_server server;
    raw_client client(server.front.port());
    const json about = json::parse(client.ask(get_request("/v2/models/memory")).body);
    EXPECT_EQ(about["properties"]["state"], "state_out is the next state_in");
    json body = body_of(json::object(), 8);
    expect_refused(client, body, 400, "the request lacks input 'state_in'");
    body["inputs"].push_back({{"name", "state_in"}, {"datatype", "FP32"}, {"shape", {1}}, {"data", {4}}});
    const json got = json::parse(ask(client, body).body);
    ASSERT_EQ(got["outputs"].size(), 2U);
    EXPECT_EQ(got["outputs"][1]["data"][0], 6);
    body["parameters"] = {{"sequence_id", 0}, {"sequence_start", false}, {"sequence_end", false}};
    EXPECT_EQ(ask(client, body).status, 200);  // as clients say that there is none
    body["parameters"] = {{"sequence_id", 1}, {"sequence_start", true}};
    expect_refused(client, body, 400, "input 'state_in' is state of the sequence, which the server keeps");
}

TEST_F(http_sequences, a_state_that_is_asked_for_is_in_the_answer) {
    const memory_server server;
    raw_client client(server.front.port());
    json body = body_of({{"sequence_id", 1}, {"sequence_start", true}}, 8);
    body["outputs"] = {{{"name", "state_out"}}};
    EXPECT_EQ(json::parse(ask(client, body).body)["outputs"][0]["data"][0], 4);
}

TEST_F(http_sequences, a_step_names_its_version_where_versions_have_shares) {
    const memory_server server(R"({"shares": {"1": 1}})");
    raw_client client(server.front.port());
    expect_refused(client, body_of({{"sequence_id", 1}, {"sequence_start", true}}), 400,
                   "a step of a sequence names its");
    const std::string body = body_of({{"sequence_id", 1}, {"sequence_start", true}}, 8).dump();
    EXPECT_EQ(client.ask(post_request("/v2/models/memory/versions/1/infer", body)).status, 200);
}

TEST_F(http_sequences, refusals_say_why_and_leave_other_sequences_alone) {
    const memory_server server(R"({"max_sequences": 1})");
    raw_client client(server.front.port());
    expect_refused(client, body_of({{"sequence_id", 1}}), 400, "there is no sequence 1");
    expect_refused(client, body_of({{"sequence_start", true}}), 400, "need a sequence_id");
    expect_refused(client, body_of({{"sequence_id", std::string(129, 'a')}}), 400, "has 129 bytes; accepted are 128");
    expect_refused(client, body_of({{"sequence_id", -1}}), 400, "'sequence_id' is not an integer");
    EXPECT_EQ(ask(client, body_of({{"sequence_id", 1}, {"sequence_start", true}}, 8)).status, 200);
    expect_refused(client, body_of({{"sequence_id", 2}, {"sequence_start", true}}), 429,
                   "1 are live, and the model accepts 1 (max_sequences)");
    expect_refused(client, body_of({{"sequence_id", 1}}, 8, 77), 400, "77");  // there are five places
    json wrong = body_of({{"sequence_id", 1}});
    wrong["inputs"].erase(1);
    expect_refused(client, wrong, 400, "the request lacks input 'place'");
    const json got = json::parse(ask(client, body_of({{"sequence_id", 1}}, 0)).body);
    const float bias = stepped_session::steps(0, 1)[0].y;  // x and place are 0
    EXPECT_EQ(got["outputs"][0]["data"][0].get<float>(), 4 + bias);
}

TEST_F(http_sequences, a_step_whose_answer_cannot_be_written_leaves_the_state_as_it_was) {
    const memory_server server;
    raw_client client(server.front.port());
    const json begins{{"sequence_id", 1}, {"sequence_start", true}};
    EXPECT_EQ(ask(client, body_of(begins, 2e38F)).status, 200);
    json both = body_of({{"sequence_id", 1}}, 3.4e38F);  // y is twice a state of 2.2e38
    expect_refused(client, both, 400, "binary data");
    both["parameters"]["sequence_end"] = true;
    expect_refused(client, both, 400, "binary data");
    json asks_for_state = body_of({{"sequence_id", 1}}, 0);
    asks_for_state["outputs"] = {{{"name", "state_out"}}};
    const json got = json::parse(ask(client, asks_for_state).body);
    EXPECT_EQ(got["outputs"][0]["data"][0].get<float>(), 0.5e38F);
}

TEST_F(http_sequences, a_client_that_dies_leaves_its_sequence_to_the_idle_limit) {
    const memory_server server(R"({"sequence_idle_ms": 50})");
    raw_client(server.front.port())
        .ask(post_request("/v2/models/memory/infer", body_of({{"sequence_id", 1}, {"sequence_start", true}}).dump()));
    while (server.models->find("memory")->statistics().sequences != 0) std::this_thread::yield();
    raw_client client(server.front.port());
    expect_refused(client, body_of({{"sequence_id", 1}}), 400, "had no step for 50 ms (sequence_idle_ms)");
}

}  // namespace
}  // namespace sluice::serve::http_sequence_tests
