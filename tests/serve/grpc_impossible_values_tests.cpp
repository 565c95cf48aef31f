// SPDX-License-Identifier: Apache-2.0
// The same over gRPC as in http_impossible_values_tests.cpp: INVALID_ARGUMENT.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <inference.grpc.pb.h>
#include "serve/support/impossible_networks.hpp"
#include "serve/support/served_networks.hpp"
#include "sluice/serve/grpc_front.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve::grpc_impossible_values_tests {
namespace {

using ::testing::HasSubstr;
using namespace testing;

std::unique_ptr<inference::GRPCInferenceService::Stub> client_of(const grpc_front& front) {
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(front.port()), grpc::InsecureChannelCredentials()));
}

void add_input(inference::ModelInferRequest& to, const std::string& name, const nn::any_tensor& value) {
    auto& made = *to.add_inputs();
    made.set_name(name);
    made.set_datatype(std::string(datatype_of(value.type())));
    for (const std::size_t length : value.shape()) made.add_shape(static_cast<std::int64_t>(length));
    to.add_raw_input_contents(value.bytes().data(), value.bytes().size());
}

grpc::Status ask(inference::GRPCInferenceService::Stub& stub, const inference::ModelInferRequest& request,
                 inference::ModelInferResponse& answer) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return stub.ModelInfer(&context, request, &answer);
}

TEST(grpc_impossible_values, are_refused_by_the_node_the_input_and_the_number) {
    const served_networks served(impossible_networks());
    const grpc_front front(*served.models, {.port = 0});
    const auto stub = client_of(front);
    std::size_t number = 0;
    for (const auto& each : nn::test_support::impossible_cases()) {
        inference::ModelInferRequest request;
        request.set_model_name("m" + std::to_string(number++));
        for (std::size_t i = 0; i < each.what.inputs.size(); ++i)
            if (each.what.inputs[i]) add_input(request, "x" + std::to_string(i), each.what.inputs[i]);
        for (int again = 0; again < 3; ++again) {  // the later ones go another way
            SCOPED_TRACE(each.what.op + ", input " + std::to_string(each.input));
            inference::ModelInferResponse ignored;
            const grpc::Status got = ask(*stub, request, ignored);
            EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << got.error_message();
            EXPECT_THAT(got.error_message(), names_what_is_wrong(each));
        }
    }
}

TEST(grpc_impossible_values, leave_the_others_of_their_batch_alone) {
    for (const joined_requests& each : joined_requests_with_a_wrong_one()) {
        const served_networks served({{each.name, each.network}}, joins_four);
        const grpc_front front(*served.models, {.port = 0});
        const auto stub = client_of(front);
        served.networks.at(each.name)->most_rows = 0;
        std::vector<inference::ModelInferResponse> answers(each.numbers.size());
        std::vector<std::future<grpc::Status>> calls;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            calls.push_back(std::async(std::launch::async, [&, i] {
                inference::ModelInferRequest request;
                request.set_model_name(each.name);
                add_input(request, "x", nn::any_tensor(std::vector{each.numbers[i]}, each.shape));
                return ask(*stub, request, answers[i]);
            }));
        }
        for (std::size_t i = 0; i < calls.size(); ++i) {
            SCOPED_TRACE(each.name + ", request " + std::to_string(i));
            const grpc::Status got = calls[i].get();
            if (i == each.wrong) {
                EXPECT_EQ(got.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << got.error_message();
                EXPECT_THAT(got.error_message(), HasSubstr(each.why));
                continue;
            }
            ASSERT_TRUE(got.ok()) << got.error_message();
            std::vector<float> y(2);
            ASSERT_EQ(answers[i].raw_output_contents(0).size(), y.size() * sizeof(float));
            std::memcpy(y.data(), answers[i].raw_output_contents(0).data(), y.size() * sizeof(float));
            EXPECT_EQ(y, each.answers[i]);
        }
        EXPECT_EQ(served.networks.at(each.name)->most_rows, 4U);
    }
}

}  // namespace
}  // namespace sluice::serve::grpc_impossible_values_tests
