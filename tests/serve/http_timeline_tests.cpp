// SPDX-License-Identifier: Apache-2.0
// The timeline of the last requests, over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/support/http_server.hpp"
#include "serve/support/known_clients.hpp"
#include "sluice/serve/request_timeline.hpp"

namespace sluice::serve::http_timeline_tests {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using testing::get_request;
using ::testing::HasSubstr;
using testing::held;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using ::testing::Not;
using testing::post_request;
using testing::raw_client;

// A row with an id.
std::string row_with(const std::string& id, const std::string& more = "") {
    return post_request("/v2/models/m/infer",
                        R"({"id":)" + json(id).dump() + more +
                            R"(,"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,1]}]})");
}

std::vector<json> slices_of(const http_answer& answer) {
    EXPECT_EQ(answer.status, 200);
    std::vector<json> found;
    const json whole = json::parse(answer.body);  // named: a loop over a temporary's part would outlive it
    for (const json& each : whole.at("traceEvents"))
        if (each.at("ph") == "X") found.push_back(each);
    return found;
}

// By status and id: the names of the stages, in their order.
std::map<std::string, std::vector<std::string>> stages_of(const std::vector<json>& slices) {
    std::map<std::string, std::vector<std::string>> found;
    for (const json& each : slices) {
        const json& its = each["args"];
        if (!its.contains("status")) continue;  // a batch
        const std::string id = its.value("id", "");
        found[its["status"].get<std::string>() + (id.empty() ? "" : " " + id)].push_back(each["name"]);
    }
    return found;
}

const std::vector<std::string> all_stages{"arrive", "parse", "queue", "join", "compute", "finish"};

TEST(http_timeline, has_the_moments_of_a_request_in_their_order) {
    const http_server server;
    raw_client client = server.client();
    EXPECT_TRUE(slices_of(client.ask(get_request("/v2/timeline"))).empty());
    ASSERT_EQ(client.ask(row_with("seven")).status, 200);
    const std::vector<request_record> last = server.models->timeline().last();
    ASSERT_EQ(last.size(), 1U);  // what is no request to a model is not among them
    const request_record& its = last.front();
    EXPECT_EQ(its.id.view(), "seven");
    EXPECT_EQ(its.model.view(), "m");
    EXPECT_EQ(its.version, 1U);
    EXPECT_EQ(its.status, 200);
    EXPECT_EQ(its.device.view(), "none");
    EXPECT_EQ(its.progress.rows, 1U);
    EXPECT_LE(its.received, its.complete);
    EXPECT_LE(its.complete, its.progress.queued);
    EXPECT_LE(its.progress.queued, its.progress.begun);
    EXPECT_LE(its.progress.begun, its.progress.joined);
    EXPECT_LE(its.progress.joined, its.progress.computed);
    EXPECT_LE(its.progress.computed, its.answered);
    const http_answer answer = client.ask(get_request("/v2/timeline"));
    EXPECT_EQ(answer.field("Content-Type"), "application/json");
    const auto stages = stages_of(slices_of(answer));
    ASSERT_TRUE(stages.contains("200 seven"));
    // A stage that takes no time on the clock is left out.
    EXPECT_THAT(stages.at("200 seven"), ::testing::IsSubsetOf(all_stages));
    EXPECT_GE(stages.at("200 seven").size(), 4U);
}

TEST(http_timeline, has_requests_that_were_refused_and_those_that_came_too_late) {
    http_server server({.header_time = 5s, .body_time = 200ms},
                       R"({"queue": 1, "max_batch": 1, "caller_thread_us": 0})");
    {
        const held gate(*server.fake);
        raw_client first = server.client(), second = server.client(), third = server.client();
        first.send(row_with("computed"));
        server.fake->wait_until_running();
        second.send(row_with("late", R"(,"parameters":{"timeout":1000})"));
        while (server.models->find("m")->statistics().waiting == 0) std::this_thread::yield();
        EXPECT_EQ(third.ask(row_with("full")).status, 429);
        std::this_thread::sleep_for(5ms);
        server.fake->open();
        EXPECT_EQ(first.receive().status, 200);
        EXPECT_EQ(second.receive().status, 504);
    }
    raw_client client = server.client();
    EXPECT_EQ(client.ask(infer_request(1, "/v2/models/other/infer")).status, 404);
    EXPECT_EQ(client.ask(post_request("/v2/models/m/infer", "[")).status, 400);
    {
        raw_client slow = server.client();
        const std::string whole = row_with("slow");
        slow.send(std::string_view(whole).substr(0, whole.size() - 1));
        EXPECT_EQ(slow.receive().status, 408);
    }
    const auto stages = stages_of(slices_of(client.ask(get_request("/v2/timeline"))));
    EXPECT_TRUE(stages.contains("200 computed"));
    EXPECT_EQ(stages.at("504 late").back(), "queue");
    EXPECT_EQ(stages.at("429 full").back(), "queue");  // which has refused it
    EXPECT_EQ(stages.at("404").back(), "parse");
    EXPECT_EQ(stages.at("400").back(), "parse");
    EXPECT_THAT(stages.at("408"), ElementsAre("arrive"));
}

TEST(http_timeline, has_the_last_requests_of_several_connections) {
    const http_server server({.threads = 2});
    constexpr int clients = 4;
    constexpr int each_sends = 2 * static_cast<int>(request_timeline::most) / clients;
    std::atomic<bool> ends{false};
    std::thread reader([&] {
        raw_client client = server.client();
        while (!ends) {
            EXPECT_EQ(client.ask(get_request("/v2/timeline")).status, 200);
            EXPECT_EQ(client.ask(get_request("/v2/timeline.svg")).status, 200);
        }
    });
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c) {
        threads.emplace_back([&, c] {
            raw_client client = server.client();
            for (int i = 0; i < each_sends; ++i)
                EXPECT_EQ(client.ask(row_with(std::to_string(c) + "-" + std::to_string(i))).status, 200);
        });
    }
    for (std::thread& each : threads) each.join();
    ends = true;
    reader.join();
    const std::vector<request_record> last = server.models->timeline().last();
    EXPECT_EQ(last.size() + server.models->timeline().skipped(), request_timeline::most);
    std::set<std::string> ids;
    std::map<std::string, int> latest;  // of each client
    for (const request_record& each : last) {
        const std::string id(each.id.view());
        EXPECT_TRUE(ids.insert(id).second) << id;
        const int number = std::stoi(id.substr(2));
        const auto [before, is_first] = latest.try_emplace(id.substr(0, 1), number);
        EXPECT_TRUE(is_first || number > before->second);
        before->second = number;
        EXPECT_NE(each.progress.batch, 0U);
    }
}

TEST(http_timeline, is_a_picture_too_in_which_texts_are_escaped) {
    const http_server server;
    raw_client client = server.client();
    ASSERT_EQ(client.ask(row_with("</title><script>alert(1)</script>\"")).status, 200);
    const http_answer picture = client.ask(get_request("/v2/timeline.svg"));
    EXPECT_EQ(picture.status, 200);
    EXPECT_EQ(picture.field("Content-Type"), "image/svg+xml");
    EXPECT_THAT(picture.field("Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_EQ(picture.field("X-Content-Type-Options"), "nosniff");
    EXPECT_THAT(picture.body, HasSubstr("&lt;/title&gt;&lt;script&gt;alert(1)"));
    EXPECT_THAT(picture.body, Not(HasSubstr("<script>alert")));
    const auto stages = stages_of(slices_of(client.ask(get_request("/v2/timeline"))));
    EXPECT_TRUE(stages.contains("200 </title><script>alert(1)</script>\""));
    EXPECT_EQ(client.ask(post_request("/v2/timeline", "{}")).status, 405);
}

TEST(http_timeline, needs_the_token_and_leaves_strangers_out) {
    const std::string token = "a-token-of-this-test";
    const http_server server({.clients = testing::client_with({token})});
    raw_client client = server.client();
    EXPECT_EQ(client.ask(get_request("/v2/timeline")).status, 401);
    EXPECT_EQ(client.ask(get_request("/v2/timeline.svg")).status, 401);
    EXPECT_EQ(client.ask(row_with("stranger")).status, 401);
    EXPECT_TRUE(server.models->timeline().last().empty());
    const std::string with = "Authorization: Bearer " + token + "\r\n";
    EXPECT_EQ(server.ask("GET /v2/timeline HTTP/1.1\r\nHost: localhost\r\n" + with + "\r\n").status, 200);
}

}  // namespace
}  // namespace sluice::serve::http_timeline_tests
