// SPDX-License-Identifier: Apache-2.0
// Who may do what over HTTP, and how much of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "serve/support/memory_models.hpp"
#include "serve/support/raw_client.hpp"
#include "sluice/base/error.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::serve::http_access_tests {
namespace {

using json = nlohmann::json;
using ::testing::ElementsAre;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::list_of;
using testing::post_request;
using testing::raw_client;

std::string with_token(std::string request, const std::string& token) {
    const std::string field = "Authorization: Bearer " + token + "\r\n";
    return request.insert(request.find("\r\n") + 2, field);
}

TEST(http_access, a_token_is_for_its_roles) {
    const auto clients = list_of({{.name = "asks", .tokens = {"asks"}, .roles = {true, false, false}},
                                  {.name = "looks", .tokens = {"looks"}, .roles = {false, true, false}},
                                  {.name = "loads", .tokens = {"loads"}, .roles = {false, false, true}}});
    const http_server server({.clients = clients});
    const auto status = [&](const std::string& request, const std::string& token) {
        return server.ask(with_token(request, token)).status;
    };
    const std::vector<std::string> all{"asks", "looks", "loads"};
    const auto statuses = [&](const std::string& request) {
        std::vector<int> got;
        for (const std::string& each : all) got.push_back(status(request, each));
        return got;
    };
    EXPECT_THAT(statuses(infer_request(1)), ElementsAre(200, 403, 403));
    for (const char* const observed :
         {"/metrics", "/v2/models/stats", "/v2/models/m/stats", "/v2/timeline", "/v2/timeline.svg"})
        EXPECT_THAT(statuses(get_request(observed)), ElementsAre(403, 200, 403)) << observed;
    for (const char* const any : {"/v2", "/v2/models/m", "/v2/models/m/ready", "/v2/models/m/config"})
        EXPECT_THAT(statuses(get_request(any)), ElementsAre(200, 200, 200)) << any;
    EXPECT_THAT(statuses(post_request("/v2/repository/models/m/load", "{}")), ElementsAre(403, 403, 200));
    EXPECT_THAT(statuses(post_request("/v2/repository/models/m/unload", "{}")), ElementsAre(403, 403, 200));
    EXPECT_THAT(statuses(post_request("/v2/repository/index", "{}")), ElementsAre(200, 200, 200));
    // Of shared memory, which this server does not share at all: the reason says who has refused.
    const auto why = [&](const std::string& request, const std::string& token) {
        return server.ask(with_token(request, token)).body;
    };
    const std::string regions = "/v2/systemsharedmemory/";
    for (const std::string& each : all) {
        const auto is_of_role = HasSubstr("this token is not for the role ");
        const bool asks = each == "asks", looks = each == "looks";
        EXPECT_EQ(::testing::Value(why(get_request(regions + "status"), each), is_of_role), !looks) << each;
        for (const char* const verb : {"region/r/register", "unregister"})
            EXPECT_EQ(::testing::Value(why(post_request(regions + verb, "{}"), each), is_of_role), !asks) << each;
    }
    EXPECT_THAT(server.ask(with_token(infer_request(1), "looks")).body,
                HasSubstr("this token is not for the role infer; its roles are observe"));
    const std::string metrics = server.ask(with_token(get_request("/metrics"), "looks")).body;
    EXPECT_THAT(metrics, HasSubstr("sluice_client_requests_total{client=\"asks\",result=\"forbidden\"} 8\n"));
    EXPECT_THAT(metrics, HasSubstr("sluice_client_requests_total{client=\"loads\",result=\"accepted\"} 7\n"));
}

TEST(http_access, requests_beyond_the_rate_are_refused_for_now) {
    const auto clients = list_of(
        {{.name = "slow", .tokens = {"slow"}, .requests_per_second = 2}, {.name = "other", .tokens = {"other"}}});
    const http_server server({.clients = clients});
    int accepted = 0;
    http_answer refused;
    for (int i = 0; i < 20; ++i) {
        const http_answer got = server.ask(with_token(infer_request(1), "slow"));
        accepted += got.status == 200 ? 1 : 0;
        if (got.status != 200) refused = got;
    }
    EXPECT_GE(accepted, 2);
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.field("Retry-After"), "1");
    EXPECT_THAT(refused.body, HasSubstr("the client 'slow' sends more than 2 requests a second"));
    EXPECT_EQ(server.ask(with_token(infer_request(1), "other")).status, 200);
}

// Padded to this length.
std::string long_request(std::size_t bytes) {
    const std::string body = infer_request(1).substr(infer_request(1).find("\r\n\r\n") + 4);
    return post_request("/v2/models/m/infer", body + std::string(bytes - body.size(), ' '));
}

TEST(http_access, a_client_s_requests_have_no_more_than_its_memory) {
    const auto clients = list_of(
        {{.name = "small", .tokens = {"small"}, .memory_bytes = 200'000}, {.name = "other", .tokens = {"other"}}});
    const http_server server({.clients = clients});
    const http_answer refused = server.ask(with_token(long_request(250'000), "small"));
    EXPECT_EQ(refused.status, 413);
    EXPECT_THAT(refused.body, HasSubstr("all requests of this client may have 200000 at a time"));
    EXPECT_EQ(server.ask(with_token(long_request(250'000), "other")).status, 200);
    // One connection, as of a proxy: what it keeps between requests is no client's.
    raw_client client = server.client();
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(client.ask(with_token(long_request(180'000), "small")).status, 200);
        EXPECT_EQ(client.ask(with_token(long_request(600'000), "other")).status, 200);
    }
    EXPECT_EQ(client.ask(get_request("/v2/health/live")).status, 200);
    testing::expect_given_back(*clients->find("Bearer small")->budget());
    EXPECT_GT(clients->whole()->bytes(), 0U);  // that the connection keeps
}

TEST(http_access, requests_of_a_client_at_a_time_share_its_memory) {
    const auto clients = list_of(
        {{.name = "small", .tokens = {"small"}, .memory_bytes = 200'000}, {.name = "other", .tokens = {"other"}}});
    const http_server server({.clients = clients}, R"({"caller_thread_us": 0})");
    std::future<http_answer> first;
    {
        const testing::held hold(*server.fake);
        first = std::async(std::launch::async, [&] { return server.ask(with_token(long_request(150'000), "small")); });
        server.fake->wait_until_running();
        EXPECT_EQ(server.ask(with_token(long_request(150'000), "small")).status, 503);
        EXPECT_GE(clients->find("Bearer small")->budget()->bytes(), 150'000U);
    }
    EXPECT_EQ(first.get().status, 200);
    EXPECT_EQ(server.ask(with_token(long_request(150'000), "small")).status, 200);
}

TEST(http_access, another_budget_than_that_of_the_clients_is_refused) {
    const http_server server;
    http_options options{.port = 0, .clients = testing::client_with({"a-token"})};
    options.budget = std::make_shared<request_budget>(1 << 20);
    EXPECT_THROW(http_front(*server.models, options), error);
    options.budget = options.clients->whole();
    EXPECT_NO_THROW(http_front(*server.models, options));
}

TEST(http_access, loads_are_in_the_log_with_who_asked) {
    std::mutex mutex;
    std::vector<std::string> lines;
    const log_sink log = [&](const log_line& line) {
        const std::lock_guard lock(mutex);
        if (line.event == "load_asked" || line.event == "unload_asked")
            lines.push_back(line.event + " " + line.model + ": " + line.message);
    };
    const http_server server;
    {
        http_front front(*server.models, {.port = 0, .clients = list_of({{.name = "ops", .tokens = {"ops"}}})}, log);
        raw_client client(front.port());
        const auto post = [&](const char* path) { client.ask(with_token(post_request(path, "{}"), "ops")); };
        post("/v2/repository/models/m/load");
        post("/v2/repository/models/m/unload");
        post("/v2/repository/models/none/load");
    }
    const http_front open(*server.models, {.port = 0}, log);
    raw_client(open.port()).ask(post_request("/v2/repository/models/m/load", "{}"));
    const std::lock_guard lock(mutex);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0], "load_asked m: load of 'm', asked by the client 'ops' at 127.0.0.1: done");
    EXPECT_EQ(lines[1], "unload_asked m: unload of 'm', asked by the client 'ops' at 127.0.0.1: done");
    EXPECT_THAT(lines[2], HasSubstr("load_asked none: load of 'none', asked by the client 'ops' at 127.0.0.1: "));
    EXPECT_THAT(lines[2], ::testing::Not(HasSubstr(": done")));
    EXPECT_EQ(lines[3], "load_asked m: load of 'm', asked by a client without a token at 127.0.0.1: done");
}

// Of a network with memory.
class http_sequence_access : public ::testing::Test {
protected:
    void SetUp() override {
        if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    }
};

std::string step(int id, bool begins, bool ends = false) {
    const json body{{"parameters", {{"sequence_id", id}, {"sequence_start", begins}, {"sequence_end", ends}}},
                    {"inputs",
                     {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {1}}, {"data", {8}}},
                      {{"name", "place"}, {"datatype", "INT64"}, {"shape", {1}}, {"data", {0}}}}}};
    return post_request("/v2/models/memory/infer", body.dump());
}

TEST_F(http_sequence_access, a_client_has_no_more_sequences_than_its_limit) {
    const testing::memory_models made;
    const auto clients = list_of({{.name = "two", .tokens = {"two"}, .sequences = 2}, {.name = "b", .tokens = {"b"}}});
    const http_front front(*made.models, {.port = 0, .clients = clients});
    const auto ask = [&](const std::string& request, const std::string& token) {
        return raw_client(front.port()).ask(with_token(request, token));
    };
    EXPECT_EQ(ask(step(1, true), "two").status, 200);
    EXPECT_EQ(ask(step(2, true), "two").status, 200);
    const http_answer refused = ask(step(3, true), "two");
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("its client has 2, and may have no more at a time"));
    EXPECT_EQ(ask(step(1, true), "two").status, 200);  // it begins again
    EXPECT_EQ(ask(step(3, true), "b").status, 200);
    EXPECT_EQ(ask(step(1, false, true), "two").status, 200);
    EXPECT_EQ(ask(step(3, true), "two").status, 200);
}

TEST_F(http_sequence_access, a_sequence_is_its_client_s_own) {
    const testing::memory_models made;
    const auto clients = list_of({{.name = "a", .tokens = {"a", "a too"}}, {.name = "b", .tokens = {"b"}}});
    const http_front front(*made.models, {.port = 0, .clients = clients});
    const auto ask = [&](const std::string& request, const std::string& token) {
        const http_answer got = raw_client(front.port()).ask(with_token(request, token));
        return got.status == 200 ? json::parse(got.body)["outputs"][0]["data"][0].get<float>()
                                 : -static_cast<float>(got.status);
    };
    const float first = ask(step(1, true), "a");
    EXPECT_EQ(ask(step(1, false), "b"), -400.F);
    EXPECT_EQ(ask(step(1, true), "b"), first);
    const float second = ask(step(1, false), "a too");  // another token of the same client
    EXPECT_NE(second, first);
    EXPECT_EQ(ask(step(1, false), "b"), second);
}

}  // namespace
}  // namespace sluice::serve::http_access_tests
