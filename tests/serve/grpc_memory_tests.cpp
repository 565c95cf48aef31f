// SPDX-License-Identifier: Apache-2.0
// Memory runs out in the server's part of gRPC: each allocation of a call and of a stream fails once, and then this one
// and all after it for a while. gRPC's own allocations do not fail here: it ends the process for want of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "serve/support/failing_memory.hpp"
#include "serve/support/grpc_server.hpp"
#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::grpc_memory_tests {
namespace {

using namespace std::chrono_literals;
using namespace inference;
using testing::failing_memory;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::memory_lacks_for;
using testing::row;

constexpr int most = 2000;  // allocations of a scenario
constexpr std::chrono::seconds at_most(10);

struct watched_server {
    explicit watched_server(const std::string& config)
        : budget(std::make_shared<request_budget>(1 << 20)), server(options(), config) {}

    grpc_options options() const {
        grpc_options made;
        made.threads = 1;
        made.budget = budget;
        return made;
    }

    std::shared_ptr<request_budget> budget;
    grpc_server server;
};

bool is_allowed(const grpc::Status& got) {
    return got.ok() || got.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

bool call_once(const grpc_server& server, int at) {
    ModelInferResponse got;
    const grpc::Status status = server.infer(row(2, true), got, at_most);
    EXPECT_TRUE(is_allowed(status)) << at << ": " << status.error_code() << " " << status.error_message();
    if (status.ok()) {
        EXPECT_EQ(got.raw_output_contents_size(), 1) << at;
    }
    return status.ok();
}

// A stream of a request that is answered, one that is refused and one more.
bool stream_once(const grpc_server& server, int at) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + at_most);
    const auto call = server.stub->ModelStreamInfer(&context);
    ModelInferRequest wrong = row(2, true);
    wrong.set_model_name("another");
    call->Write(row(2, true));
    call->Write(wrong);
    call->Write(row(2, true));
    call->WritesDone();
    int answers = 0, refusals = 0;
    for (ModelStreamInferResponse got; call->Read(&got);) ++(got.error_message().empty() ? answers : refusals);
    const grpc::Status status = call->Finish();
    EXPECT_TRUE(is_allowed(status)) << at << ": " << status.error_code() << " " << status.error_message();
    if (status.ok()) {
        EXPECT_EQ(answers + refusals, 3) << at << ": a request of the stream was lost";
    }
    return status.ok() && answers == 2 && refusals == 1;
}

void expect_rest(const watched_server& its, int at) {
    const auto limit = std::chrono::steady_clock::now() + at_most;
    const std::string wanted = "\nsluice_grpc_unanswered_requests 0\n";
    while (its.server.front->metrics().find(wanted) == std::string::npos && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(1ms);
    EXPECT_THAT(its.server.front->metrics(), HasSubstr(wanted)) << at;
    // A thread that computes counts itself out, and lets go of the request, after it has handed over the answer.
    const auto statistics = [&] { return its.server.models->find("m")->statistics(); };
    const auto is_at_rest = [&] { return its.budget->bytes() == 0 && statistics().running == 0; };
    while (!is_at_rest() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(its.budget->bytes(), 0U) << at;
    EXPECT_EQ(statistics().running, 0U) << at;
    EXPECT_EQ(statistics().waiting, 0U) << at;
    EXPECT_TRUE(its.server.infer(row(2)).ok()) << at << ": the server does not go on";
}

class grpc_memory : public ::testing::TestWithParam<const char*> {
protected:
    using scenario = bool (*)(const grpc_server&, int);

    void SetUp() override { failing_memory::spare_this_thread(); }

    static void fail_each(scenario what) {
        const watched_server its(GetParam());
        ASSERT_TRUE(what(its.server, -1));
        int refused = 0;
        for (int n = 0;; ++n) {
            ASSERT_LT(n, most) << "the scenario never succeeds";
            failing_memory::fail_after(n, false);
            const bool went_well = what(its.server, n);
            const bool has_failed = failing_memory::stop();
            expect_rest(its, n);
            if (HasFailure()) return;
            if (!went_well) ++refused;
            EXPECT_TRUE(went_well || has_failed) << n;
            if (!has_failed) break;
        }
        EXPECT_GT(refused, 3);
    }
};

TEST_P(grpc_memory, each_allocation_of_a_call_fails_once) { fail_each(call_once); }
TEST_P(grpc_memory, each_allocation_of_a_stream_fails_once) { fail_each(stream_once); }

// More calls come than wait: those that could not be waited for are waited for again.
TEST_P(grpc_memory, there_is_none_for_a_while) {
    const watched_server its(GetParam());
    ASSERT_TRUE(stream_once(its.server, -1));
    for (int n = 0; n < 40; ++n) {
        {
            const memory_lacks_for lack(n, 20ms);
            call_once(its.server, n);
            for (int i = 0; i < 4; ++i) stream_once(its.server, n);
        }
        expect_rest(its, n);
        EXPECT_TRUE(stream_once(its.server, n));
        if (HasFailure()) return;
    }
}

TEST_P(grpc_memory, a_server_ends_while_calls_are_not_waited_for) {
    auto its = std::make_unique<watched_server>(GetParam());
    ASSERT_TRUE(stream_once(its->server, -1));
    const memory_lacks_for lack(0, 300ms);
    for (int i = 0; i < 2; ++i) stream_once(its->server, -1);  // as many as wait
    its.reset();
}

INSTANTIATE_TEST_SUITE_P(, grpc_memory,
                         ::testing::Values(R"({"caller_thread_us":1000000})", R"({"caller_thread_us":0})"),
                         [](const auto& each) {
                             return std::string(each.param).find(":0}") == std::string::npos ? "on_the_callers_thread"
                                                                                             : "on_a_thread_of_its_own";
                         });

}  // namespace
}  // namespace sluice::serve::grpc_memory_tests
