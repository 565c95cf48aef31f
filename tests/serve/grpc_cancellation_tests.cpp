// SPDX-License-Identifier: Apache-2.0
// Calls that end at any moment: their clients cancel them, their deadlines are over, the server ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"

namespace sluice::serve::grpc_cancellation_tests {
namespace {

using namespace std::chrono_literals;
using namespace inference;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

// Each of its calls ends in another way and at another time.
class impatient_client {
public:
    impatient_client(const grpc_server& server, unsigned seed)
        : stub_(server.client(grpc::InsecureChannelCredentials())), random_(seed) {}

    void ask() {
        grpc::ClientContext context;
        switch (random_() % 8) {
            case 0:
                context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(random_() % 3000));
            default: break;
        }
        std::jthread cancels;
        if (random_() % 2 == 0) {
            cancels = std::jthread([&context, soon = std::chrono::microseconds(random_() % 1500)] {
                std::this_thread::sleep_for(soon);
                context.TryCancel();
            });
        }
        switch (random_() % 4) {
            case 0: return infer(context);
            case 1: return load(context);
            default: return stream(context);
        }
    }

private:
    void infer(grpc::ClientContext& context) {
        ModelInferResponse ignored;
        stub_->ModelInfer(&context, row(1, random_() % 2 == 0), &ignored);
    }

    void load(grpc::ClientContext& context) {
        RepositoryModelLoadRequest request;
        request.set_model_name("m");
        RepositoryModelLoadResponse ignored;
        stub_->RepositoryModelLoad(&context, request, &ignored);
    }

    void stream(grpc::ClientContext& context) {
        const auto call = stub_->ModelStreamInfer(&context);
        const auto requests = static_cast<unsigned>(random_() % 100);
        for (unsigned i = 0; i < requests; ++i)
            if (!call->Write(row(static_cast<float>(i % 20), true))) break;
        if (random_() % 2 == 0) call->WritesDone();
        ModelStreamInferResponse got;
        for (auto i = static_cast<unsigned>(random_()) % (requests + 1); i != 0 && call->Read(&got); --i) continue;
        context.TryCancel();
        call->Finish();
    }

    std::unique_ptr<GRPCInferenceService::Stub> stub_;
    std::minstd_rand random_;
};

void wait_until_nothing_is_left(const grpc_server& server, const request_budget& budget) {
    const std::string none = "\nsluice_grpc_unanswered_requests 0\n";
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (server.front->metrics().find(none) == std::string::npos && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(1ms);
    EXPECT_THAT(server.front->metrics(), HasSubstr(none));
    testing::expect_given_back(budget);
    EXPECT_EQ(server.models->find("m")->statistics().waiting, 0U);
}

constexpr std::chrono::milliseconds round_time = 1500ms;

TEST(grpc_cancellation, leaves_nothing_of_a_call) {
    for (const char* const config : {"{}", R"({"caller_thread_us": 0, "max_batch": 4})"}) {
        const auto budget = std::make_shared<request_budget>(1 << 20);
        grpc_server server({.threads = 2, .budget = budget}, config);
        {
            std::vector<std::jthread> clients;
            for (unsigned i = 0; i < 6; ++i) {
                clients.emplace_back([&server, i](const std::stop_token& end) {
                    impatient_client client(server, i + 1);
                    while (!end.stop_requested()) client.ask();
                });
            }
            std::this_thread::sleep_for(round_time);
        }
        wait_until_nothing_is_left(server, *budget);
        EXPECT_TRUE(server.infer(row(4)).ok());
        EXPECT_EQ(server.front->drain(20s), 0U);
    }
}

TEST(grpc_cancellation, may_meet_the_end_of_the_server) {
    for (unsigned round = 0; round < 20; ++round) {
        const auto budget = std::make_shared<request_budget>(1 << 20);
        grpc_server server({.threads = 2, .budget = budget}, round % 2 == 0 ? "{}" : R"({"caller_thread_us": 0})");
        std::vector<std::jthread> clients;
        for (unsigned i = 0; i < 6; ++i) {
            clients.emplace_back([&server, seed = 100 * round + i](const std::stop_token& end) {
                impatient_client client(server, seed + 1);
                while (!end.stop_requested()) client.ask();
            });
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10 * round));
        EXPECT_EQ(server.front->drain(20s), 0U);
        clients.clear();
        wait_until_nothing_is_left(server, *budget);
    }
}

}  // namespace
}  // namespace sluice::serve::grpc_cancellation_tests
