// SPDX-License-Identifier: Apache-2.0
// Sequences over gRPC: single calls, and streams.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <inference.grpc.pb.h>
#include "serve/support/memory_models.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/serve/grpc_front.hpp"

namespace sluice::serve::grpc_sequence_tests {
namespace {

using namespace inference;
using ::testing::HasSubstr;
using testing::memory_models;
using testing::stepped_session;

class grpc_sequences : public ::testing::Test {
protected:
    void SetUp() override {
        if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    }
};

struct memory_server : memory_models {
    explicit memory_server(const std::string& config = "{}") : memory_models(config) {}

    std::unique_ptr<GRPCInferenceService::Stub> client() const {
        grpc::ChannelArguments arguments;
        arguments.SetInt("grpc.use_local_subchannel_pool", 1);
        return GRPCInferenceService::NewStub(grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(front.port()),
                                                                       grpc::InsecureChannelCredentials(), arguments));
    }

    grpc_front front{*models, {.port = 0}};
};

template <typename Value>
void add_input(ModelInferRequest& to, const char* name, const char* datatype, Value value) {
    auto& input = *to.add_inputs();
    input.set_name(name);
    input.set_datatype(datatype);
    input.add_shape(1);
    to.add_raw_input_contents(&value, sizeof(value));
}

ModelInferRequest step(const stepped_session::step& of, std::uint64_t id, bool begins = false, bool ends = false) {
    ModelInferRequest made;
    made.set_model_name("memory");
    add_input(made, "x", "FP32", of.x);
    add_input(made, "place", "INT64", of.place);
    auto& parameters = *made.mutable_parameters();
    if (id % 2 == 0)
        parameters["sequence_id"].set_int64_param(static_cast<std::int64_t>(id));
    else
        parameters["sequence_id"].set_string_param("client " + std::to_string(id));
    if (begins) parameters["sequence_start"].set_bool_param(true);
    if (ends) parameters["sequence_end"].set_bool_param(true);
    return made;
}

void expect_answer(const ModelInferResponse& got, float y) {
    ASSERT_EQ(got.outputs_size(), 1);
    EXPECT_EQ(got.outputs(0).name(), "y");
    float value = 0;
    ASSERT_EQ(got.raw_output_contents(0).size(), sizeof(value));
    std::memcpy(&value, got.raw_output_contents(0).data(), sizeof(value));
    EXPECT_EQ(value, y);
}

TEST_F(grpc_sequences, eight_clients_get_what_sessions_of_their_own_give) {
    const memory_server server;
    std::vector<std::thread> clients;
    for (std::uint64_t id = 1; id <= 8; ++id) {
        clients.emplace_back([&, id] {
            const auto stub = server.client();
            const auto steps = stepped_session::steps(id, 40);
            for (std::size_t i = 0; i < steps.size(); ++i) {
                grpc::ClientContext context;
                ModelInferResponse got;
                const grpc::Status status =
                    stub->ModelInfer(&context, step(steps[i], id, i == 0, i + 1 == steps.size()), &got);
                ASSERT_TRUE(status.ok()) << status.error_message();
                expect_answer(got, steps[i].y);
            }
        });
    }
    for (std::thread& each : clients) each.join();
    EXPECT_EQ(server.models->find("memory")->statistics().sequences, 0U);
}

TEST_F(grpc_sequences, a_step_names_its_version_where_versions_have_shares) {
    const memory_server server(R"({"shares": {"1": 1}})");
    const auto stub = server.client();
    ModelInferRequest request = step(stepped_session::steps(1, 1).front(), 1, true);
    for (const char* const version : {"", "1"}) {
        request.set_model_version(version);
        grpc::ClientContext context;
        ModelInferResponse got;
        const grpc::Status status = stub->ModelInfer(&context, request, &got);
        EXPECT_EQ(status.error_code(), *version != 0 ? grpc::StatusCode::OK : grpc::StatusCode::INVALID_ARGUMENT)
            << status.error_message();
    }
}

// All are sent at once: steps of one sequence wait for each other. Some are compressed, which takes longer.
TEST_F(grpc_sequences, steps_of_a_stream_are_made_in_their_order) {
    const memory_server server;
    const auto stub = server.client();
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    const auto stream = stub->ModelStreamInfer(&context);
    std::vector<std::vector<stepped_session::step>> steps;
    for (std::uint64_t id = 0; id < 3; ++id) steps.push_back(stepped_session::steps(id, 40));
    std::thread asks([&] {
        for (std::size_t i = 0; i < 40; ++i) {
            for (std::uint64_t id = 0; id < 3; ++id) {
                ModelInferRequest request = step(steps[id][i], id + 1, i == 0, i == 39);
                if (i % 3 == 0) request.set_id(std::string(300'000, 'a'));
                grpc::WriteOptions options;
                if (i % 3 != 0) options.set_no_compression();
                stream->Write(request, options);
            }
        }
        stream->WritesDone();
    });
    ModelStreamInferResponse got;
    for (std::size_t i = 0; i < 40; ++i) {
        for (std::uint64_t id = 0; id < 3; ++id) {
            ASSERT_TRUE(stream->Read(&got));
            ASSERT_EQ(got.error_message(), "");
            expect_answer(got.infer_response(), steps[id][i].y);
        }
    }
    asks.join();
    EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(grpc_sequences, refusals_have_their_status_and_the_metadata_names_the_state) {
    const memory_server server(R"({"max_sequences": 1})");
    const auto stub = server.client();
    const stepped_session::step any{.x = 1, .place = 0, .y = 0};
    const auto status_of = [&](const ModelInferRequest& request) {
        grpc::ClientContext context;
        ModelInferResponse ignored;
        return stub->ModelInfer(&context, request, &ignored);
    };
    const grpc::Status unknown = status_of(step(any, 2));
    EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(unknown.error_message(), HasSubstr("there is no sequence 2"));
    EXPECT_TRUE(status_of(step(any, 2, true)).ok());
    const grpc::Status one_more = status_of(step(any, 3, true));
    EXPECT_EQ(one_more.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(one_more.error_message(), HasSubstr("'client 3' cannot begin: 1 are live, and the model accepts 1"));
    ModelInferRequest with_state = step(any, 2);
    add_input(with_state, "state_in", "FP32", 1.0F);
    EXPECT_THAT(status_of(with_state).error_message(), HasSubstr("input 'state_in' is state of the sequence"));
    EXPECT_TRUE(status_of(step(any, 2)).ok());
    grpc::ClientContext context;
    ModelMetadataRequest request;
    request.set_name("memory");
    ModelMetadataResponse about;
    ASSERT_TRUE(stub->ModelMetadata(&context, request, &about).ok());
    EXPECT_EQ(about.properties().at("state"), "state_out is the next state_in");
}

}  // namespace
}  // namespace sluice::serve::grpc_sequence_tests
