// SPDX-License-Identifier: Apache-2.0
// Requests over HTTP that wait for their model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/http_server.hpp"

namespace sluice::serve::http_on_demand_tests {
namespace {

using namespace std::chrono_literals;
using testing::get_request;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::raw_client;

struct demanding_server : http_server {
    demanding_server() : http_server({}, "{}", std::make_shared<testing::fake_model>(), {.loads_on_demand = true}) {}

    // Holds loads until open().
    void hold() {
        on_load = [this, gate = gate_.get_future().share()] {
            ++loads;
            gate.wait();
        };
    }
    void open() { gate_.set_value(); }

    std::atomic<int> loads{0};

private:
    std::promise<void> gate_;
};

TEST(http_on_demand, the_first_request_for_a_model_loads_it) {
    for (const char* const path : {"/v2/models/m", "/v2/models/m/config"}) {
        const demanding_server server;
        EXPECT_EQ(server.ask(get_request("/v2/health/ready")).status, 200);
        EXPECT_EQ(server.models->all().size(), 0U);
        EXPECT_EQ(server.ask(get_request(path)).status, 200) << path;
        EXPECT_EQ(server.models->all().size(), 1U);
    }
    const demanding_server server;
    EXPECT_EQ(server.ask(get_request("/v2/models/m/ready")).status, 200);  // it may be asked
    EXPECT_EQ(server.ask(get_request("/v2/models/other/ready")).status, 404);
    EXPECT_EQ(server.models->all().size(), 0U);
    raw_client client = server.client();
    EXPECT_THAT(client.ask(infer_request(3)).body, HasSubstr("[6,6]"));
    EXPECT_EQ(client.ask(infer_request(4)).status, 200);  // the connection stays
    EXPECT_EQ(client.ask(get_request("/v2/models/other")).status, 404);
    EXPECT_EQ(client.ask(infer_request(1, "/v2/models/other/infer")).status, 404);
    EXPECT_EQ(server.models->memory().on_demand, 1U);
}

// One loop has all connections, and must not be held up.
TEST(http_on_demand, others_are_answered_while_requests_wait) {
    demanding_server server;
    server.hold();
    std::vector<raw_client> waiting;
    for (int i = 0; i < 5; ++i) {
        waiting.push_back(server.client());
        waiting.back().send(infer_request(static_cast<float>(i)));
        waiting.back().send(infer_request(static_cast<float>(20 + i)));  // after it
    }
    while (server.loads == 0) std::this_thread::yield();
    EXPECT_EQ(server.ask(get_request("/v2/health/live")).status, 200);
    server.open();
    for (int i = 0; i < 5; ++i) {
        EXPECT_THAT(waiting[static_cast<std::size_t>(i)].receive().body, HasSubstr("[" + std::to_string(2 * i) + ","));
        EXPECT_THAT(waiting[static_cast<std::size_t>(i)].receive().body,
                    HasSubstr("[" + std::to_string(40 + 2 * i) + ","));
    }
    EXPECT_EQ(server.loads, 1);
}

TEST(http_on_demand, a_load_that_fails_is_an_answer) {
    demanding_server server;
    server.on_load = [] { throw std::runtime_error("it is broken"); };
    raw_client client = server.client();
    for (int i = 0; i < 3; ++i) {
        const http_answer got = client.ask(infer_request(1));
        EXPECT_EQ(got.status, 503);
        EXPECT_THAT(got.body, HasSubstr("it is broken"));
    }
    EXPECT_EQ(client.ask(get_request("/v2/health/ready")).status, 200);
}

TEST(http_on_demand, clients_that_leave_meanwhile_change_nothing) {
    demanding_server server;
    server.hold();
    for (int i = 0; i < 4; ++i) {
        raw_client gone = server.client();
        gone.send(infer_request(1));
        if (i % 2 == 0) gone.reset();
    }
    raw_client stays = server.client();
    stays.send(infer_request(5));
    while (server.loads == 0) std::this_thread::yield();
    std::this_thread::sleep_for(100ms);
    server.open();
    EXPECT_THAT(stays.receive().body, HasSubstr("[10,10]"));
}

TEST(http_on_demand, a_drain_answers_what_waits_and_an_end_may_come_at_any_time) {
    {
        demanding_server server;
        server.hold();
        raw_client client = server.client();
        client.send(infer_request(5));
        while (server.loads == 0) std::this_thread::yield();
        auto cut = std::async(std::launch::async, [&] { return server.front->drain(20s); });
        std::this_thread::sleep_for(50ms);
        server.open();
        EXPECT_THAT(client.receive().body, HasSubstr("[10,10]"));
        EXPECT_EQ(cut.get(), 0U);
    }
    demanding_server server;
    server.hold();
    raw_client client = server.client();
    client.send(infer_request(5));
    while (server.loads == 0) std::this_thread::yield();
    EXPECT_EQ(server.front->drain(10ms), 1U);
    server.front.reset();
    server.open();
    EXPECT_TRUE(client.is_closed());
}

}  // namespace
}  // namespace sluice::serve::http_on_demand_tests
