// SPDX-License-Identifier: Apache-2.0
// Memory runs out in the HTTP server: each allocation from the arrival of a connection to the answer of its second
// request fails once, and then this one and all after it for a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "serve/support/failing_memory.hpp"
#include "serve/support/http_server.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::http_memory_tests {
namespace {

using namespace std::chrono_literals;
using testing::failing_memory;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_server;
using testing::infer_request;
using testing::memory_lacks_for;
using testing::raw_client;

constexpr int most = 2000;  // allocations of a scenario
constexpr std::chrono::seconds at_most(10);

struct watched_server {
    explicit watched_server(const std::string& config)
        : budget(std::make_shared<request_budget>(1 << 20)), server(options(), config) {}

    http_options options() const {
        http_options made;
        made.threads = 1;
        made.budget = budget;
        return made;
    }
    model_statistics statistics() const { return server.models->find("m")->statistics(); }

    std::shared_ptr<request_budget> budget;
    http_server server;
};

// An answer that is right, a refusal for want of memory, or the end of the connection.
bool is_allowed(const http_answer& got) {
    if (got.status == 200)
        return got.body.find("[4,4]") != std::string::npos || got.body.find("4.0") != std::string::npos;
    return got.status == 503 || got.status == 0;
}

// Two requests of a new connection. Whether both were answered.
bool ask_twice(const http_server& server, int at) {
    raw_client client(server.front->port(), at_most);
    for (int i = 0; i < 2; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        client.send(infer_request(2));
        const http_answer got = client.receive();
        EXPECT_TRUE(is_allowed(got)) << at << ": " << got.status << got.body;
        EXPECT_LT(std::chrono::steady_clock::now() - begin, at_most / 2) << at << ": the request was lost";
        if (got.status != 200) return false;
    }
    return true;
}

// The gauge of connections, by one of them.
std::string connections(raw_client& by) {
    const http_answer got = by.ask(testing::get_request("/metrics"));
    const std::size_t at = got.body.find("\nsluice_http_connections ");
    return at == std::string::npos ? got.body : got.body.substr(at + 25, got.body.find('\n', at + 1) - at - 25);
}

// The server is as if nothing had happened.
void expect_rest(const watched_server& its, raw_client& other, int at) {
    EXPECT_EQ(other.ask(infer_request(2)).status, 200) << at << ": another connection was touched";
    const auto limit = std::chrono::steady_clock::now() + at_most;
    while (connections(other) != "1" && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(connections(other), "1") << at << ": connections have leaked";
    // A thread that computes counts itself out, and lets go of the request, after it has handed over the answer.
    const auto is_at_rest = [&] { return its.budget->bytes() == 0 && its.statistics().running == 0; };
    while (!is_at_rest() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(its.budget->bytes(), 0U) << at;
    EXPECT_EQ(its.statistics().running, 0U) << at;
    EXPECT_EQ(its.statistics().waiting, 0U) << at;
}

class http_memory : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override { failing_memory::spare_this_thread(); }
};

TEST_P(http_memory, each_allocation_fails_once) {
    const watched_server its(GetParam());
    raw_client other = its.server.client();
    ASSERT_EQ(other.ask(infer_request(2)).status, 200);
    int refused = 0;
    for (int n = 0;; ++n) {
        ASSERT_LT(n, most) << "the scenario never succeeds";
        failing_memory::fail_after(n, false);
        const bool went_well = ask_twice(its.server, n);
        const bool has_failed = failing_memory::stop();
        expect_rest(its, other, n);
        if (HasFailure()) return;
        if (!went_well) ++refused;
        EXPECT_TRUE(went_well || has_failed) << n;
        if (!has_failed) break;
    }
    EXPECT_GT(refused, 5);
}

TEST_P(http_memory, there_is_none_for_a_while) {
    const watched_server its(GetParam());
    raw_client other = its.server.client();
    ASSERT_EQ(other.ask(infer_request(2)).status, 200);
    for (int n = 0; n < 60; ++n) {
        {
            const memory_lacks_for lack(n, 70ms);  // longer than the time between two ticks
            ask_twice(its.server, n);
        }
        expect_rest(its, other, n);
        if (HasFailure()) return;
    }
}

TEST_P(http_memory, a_server_ends_without_any) {
    auto its = std::make_unique<watched_server>(GetParam());
    raw_client client = its->server.client();
    ASSERT_EQ(client.ask(infer_request(2)).status, 200);
    {
        const memory_lacks_for lack(0, 200ms);
        its->server.front->drain(100ms);
        its->server.front.reset();
    }
    EXPECT_TRUE(client.is_closed());
}

INSTANTIATE_TEST_SUITE_P(, http_memory,
                         ::testing::Values(R"({"caller_thread_us":1000000})", R"({"caller_thread_us":0})"),
                         [](const auto& each) {
                             return std::string(each.param).find(":0}") == std::string::npos ? "on_the_callers_thread"
                                                                                             : "on_a_thread_of_its_own";
                         });

}  // namespace
}  // namespace sluice::serve::http_memory_tests
